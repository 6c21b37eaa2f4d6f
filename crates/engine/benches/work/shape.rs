//! Inputs told by a few numbers, their genes, so that a search can change them.

use super::texts::Random;

/// The values of the genes, in their order.
pub(crate) type Genes = Vec<u32>;

/// A family of inputs that a stranger could send.
pub(crate) trait Shape: Clone {
    /// The genes by name, each with how many values it takes.
    const GENES: &'static [(&'static str, u32)];

    /// The input with these genes.
    fn new(genes: Genes) -> Self;

    /// Its genes.
    fn genes(&self) -> &Genes;

    /// A request of about so many bytes that holds one such trace.
    fn request(&self, bytes: usize) -> Vec<u8>;

    /// Any shape.
    fn random(random: &mut Random) -> Self {
        Self::new(Self::GENES.iter().map(|(_, count)| random.below(*count)).collect())
    }

    /// The same with one to three genes changed.
    fn changed(&self, random: &mut Random) -> Self {
        let mut changed = self.genes().clone();
        for _ in 0..=random.below(3) {
            let gene = random.below(Self::GENES.len() as u32) as usize;
            changed[gene] = random.below(Self::GENES[gene].1);
        }
        Self::new(changed)
    }

    /// Reads what [`line`](Self::line) wrote; genes that are not named are 0.
    fn parse(line: &str) -> Self {
        let mut genes = vec![0; Self::GENES.len()];
        for (name, value) in line.split_whitespace().filter_map(|gene| gene.split_once('=')) {
            let at = Self::GENES.iter().position(|(gene, _)| *gene == name);
            let at = at.unwrap_or_else(|| panic!("no gene is called {name}"));
            genes[at] = value.parse().unwrap();
        }
        Self::new(genes)
    }

    /// Its genes by name, those that are 0 left out.
    fn line(&self) -> String {
        let genes = Self::GENES.iter().zip(self.genes()).filter(|(_, value)| **value > 0);
        genes.map(|((name, _), value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// The value of a gene.
    fn gene(&self, name: &str) -> usize {
        let at = Self::GENES.iter().position(|(gene, _)| *gene == name).unwrap();
        self.genes()[at] as usize
    }
}
