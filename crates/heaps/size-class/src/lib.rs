//! Size-class tables of published allocators, as data.
