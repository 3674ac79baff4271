//! Inlined closures, generics and trait objects, for comparing symbols with other tools.

struct Shop {
    names: Vec<String>,
}

trait Describe {
    fn describe(&self) -> String;
}

impl Describe for Shop {
    #[inline(never)]
    fn describe(&self) -> String {
        self.names.iter().map(|name| shout(name)).collect::<Vec<_>>().join(" ")
    }
}

#[inline(always)]
fn shout(name: &str) -> String {
    let mut text = name.to_uppercase();
    text.push('!');
    text
}

#[inline(never)]
fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    vec![value; count]
}

fn main() {
    let shop = Shop { names: filled(String::from("apple"), std::env::args().count()) };
    let described: Box<dyn Describe> = Box::new(shop);
    println!("{}", described.describe());
}
