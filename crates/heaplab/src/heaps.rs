//! The table of heaps. A new family is one line in it.

use anyhow::Context as _;
use heaplab_arena::Arenas;
use heaplab_metaspace::Metaspaces;
use heaplab_node::Nodes;
use heaplab_ocaml::OCamls;
use heaplab_ocamlrt::Runtimes;
use heaplab_replay::{Families, Of, Selected};
use heaplab_system::Allocators;
use heaplab_textbook::Textbook;
use heaplab_v8::V8s;

/// Every family.
pub const FAMILIES: Families = Families(&[
    &Of(Allocators),
    &Of(Metaspaces),
    &Of(Arenas),
    &Of(Textbook),
    &Of(V8s),
    &Of(Nodes),
    &Of(OCamls),
    &Of(Runtimes),
]);

/// How parameters follow a heap's name.
pub const SYNTAX: &str = "Parameters follow a heap's name: NAME:PARAMETER=VALUE,PARAMETER=VALUE. A colon means the same as a comma, \
                          and a variant comes first: metaspace:jdk17,limit=64m.";

/// A heap of any family, with its parameters, as asked for.
pub type Heap = Box<dyn Selected>;

/// The heaps that `--on` names, such as `glibc,jemalloc:narenas=1,dirty_decay_ms=0,mimalloc`.
pub fn on(list: &str) -> anyhow::Result<Vec<Heap>> {
    FAMILIES.parse_list(list).context("--on")
}
