//! What is live at the end.
