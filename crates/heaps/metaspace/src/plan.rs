//! The kind of arena of each region of a workload.
//!
//! A class loader owns two arenas, one for class structures (class space) and one for everything
//! else; the loader's kind decides their growth steps. A workload tells the kind in its arenas
//! table, and this module gives those words their meaning: `kind` is "class" or "non-class",
//! `growth_policy` one of [`LoaderKind::ALL`]'s names. A region without a row is a standard
//! non-class arena.

use heaplab_heap::Region;

/// The kind of class loader an arena belongs to, as HotSpot's `Metaspace::MetaspaceType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LoaderKind {
    /// The boot class loader; it loads much and never dies.
    Boot,
    /// Any other class loader.
    #[default]
    Standard,
    /// A hidden class with its own arenas (anonymous classes in JDK 11).
    Hidden,
    /// A reflection delegator: one class.
    Reflection,
}

impl LoaderKind {
    /// Every kind, with its name.
    pub const ALL: [(LoaderKind, &'static str); 4] = [
        (LoaderKind::Boot, "boot"),
        (LoaderKind::Standard, "standard"),
        (LoaderKind::Hidden, "hidden"),
        (LoaderKind::Reflection, "reflection"),
    ];

    /// Its name in the arenas table.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("standard", |(_, name)| name)
    }
}

/// An arena of the metaspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArenaPlan {
    /// In class space; otherwise among the non-class nodes.
    pub class: bool,
    /// Its loader's kind.
    pub loader: LoaderKind,
}

impl ArenaPlan {
    /// From the columns `kind` and `growth_policy` of a workload's arenas table. `anonymous` is JDK
    /// 11's word for hidden; `micro` is a reflection or hidden loader in a log of JDK 16 and later;
    /// unknown words mean standard and non-class.
    pub fn parse(kind: &str, growth_policy: &str) -> ArenaPlan {
        let loader = match growth_policy {
            "anonymous" => LoaderKind::Hidden,
            "micro" => LoaderKind::Reflection,
            other => LoaderKind::ALL
                .iter()
                .find(|(_, name)| *name == other)
                .map_or(LoaderKind::Standard, |(kind, _)| *kind),
        };
        ArenaPlan { class: kind == "class", loader }
    }
}

/// The arenas of a workload, by region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    arenas: Vec<ArenaPlan>,
}

impl Plan {
    /// `arenas[n]` is region `n`; malloc's region 0, which never dies, is always a boot loader's
    /// non-class arena.
    pub fn new(mut arenas: Vec<ArenaPlan>) -> Plan {
        let malloc = ArenaPlan { class: false, loader: LoaderKind::Boot };
        match arenas.first_mut() {
            Some(first) => *first = malloc,
            None => arenas.push(malloc),
        }
        Plan { arenas }
    }

    /// The arena of `region`.
    pub fn arena(&self, region: Region) -> ArenaPlan {
        match self.arenas.get(region.0 as usize) {
            Some(plan) => *plan,
            None if region == Region::MALLOC => {
                ArenaPlan { class: false, loader: LoaderKind::Boot }
            }
            None => ArenaPlan::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_table_become_arenas() {
        assert_eq!(
            ArenaPlan::parse("class", "boot"),
            ArenaPlan { class: true, loader: LoaderKind::Boot }
        );
        assert_eq!(ArenaPlan::parse("non-class", "micro").loader, LoaderKind::Reflection);
        assert_eq!(ArenaPlan::parse("request", ""), ArenaPlan::default());
        for (kind, name) in LoaderKind::ALL {
            assert_eq!((kind.name(), ArenaPlan::parse("class", name).loader), (name, kind));
        }
    }

    #[test]
    fn a_region_without_a_row_is_standard_and_malloc_is_the_boot_loader() {
        let plan = Plan::new(vec![ArenaPlan::default(), ArenaPlan::parse("class", "hidden")]);
        assert_eq!(plan.arena(Region::MALLOC).loader, LoaderKind::Boot);
        assert!(plan.arena(Region(1)).class);
        assert_eq!(plan.arena(Region(2)), ArenaPlan::default());
        assert_eq!(Plan::default().arena(Region::MALLOC).loader, LoaderKind::Boot);
    }
}
