//! The traces that the reference measurements of DRAM were made on: 64-byte requests over 1 GiB.
//!
//! They are drawn with CPython's `random` (MT19937, `random.Random(seed)`), so that they are the very
//! same requests that other simulators were given.

/// Addresses, and whether they write.
pub struct Trace {
    pub addresses: Vec<u64>,
    pub writes: Vec<bool>,
}

const WINDOW: u64 = 1 << 30;
const LINE: u64 = 64;

/// Reads, ascending from 0.
pub fn stream(count: u64) -> Trace {
    Trace { addresses: (0..count).map(|i| i * LINE % WINDOW).collect(), writes: Vec::new() }
}

/// Reads, uniform over the window.
pub fn random(count: u64) -> Trace {
    let mut rng = Twister::new(0);
    Trace { addresses: (0..count).map(|_| rng.below(WINDOW / LINE) * LINE).collect(), writes: Vec::new() }
}

/// Sixteen ascending streams in turn, one bank each; half of the requests write.
pub fn mix16b(count: u64) -> Trace {
    let mut rng = Twister::new(1);
    let mut trace = Trace { addresses: Vec::new(), writes: Vec::new() };
    for i in 0..count {
        trace.writes.push(rng.real() >= 0.5);
        trace.addresses.push(((i % 16) * ((64 << 20) + 8192) + i / 16 * LINE) % WINDOW);
    }
    trace
}

/// MT19937 (Matsumoto, Nishimura 1998) as CPython seeds it.
struct Twister {
    state: [u32; 624],
    at: usize,
}

impl Twister {
    fn new(seed: u32) -> Twister {
        let mut s = [0u32; 624];
        s[0] = 19_650_218;
        for i in 1..624 {
            s[i] = 1_812_433_253u32.wrapping_mul(s[i - 1] ^ s[i - 1] >> 30).wrapping_add(i as u32);
        }
        let mut i = 1;
        for _ in 0..624 {
            s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30).wrapping_mul(1_664_525)).wrapping_add(seed);
            i += 1;
            if i == 624 {
                s[0] = s[623];
                i = 1;
            }
        }
        for _ in 0..623 {
            s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i == 624 {
                s[0] = s[623];
                i = 1;
            }
        }
        s[0] = 0x8000_0000;
        Twister { state: s, at: 624 }
    }

    fn word(&mut self) -> u32 {
        if self.at == 624 {
            let s = &mut self.state;
            for i in 0..624 {
                let y = s[i] & 0x8000_0000 | s[(i + 1) % 624] & 0x7fff_ffff;
                s[i] = s[(i + 397) % 624] ^ y >> 1 ^ if y & 1 == 1 { 0x9908_b0df } else { 0 };
            }
            self.at = 0;
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    fn below(&mut self, n: u64) -> u64 {
        let bits = 64 - n.leading_zeros();
        loop {
            let r = u64::from(self.word() >> (32 - bits));
            if r < n {
                return r;
            }
        }
    }

    fn real(&mut self) -> f64 {
        let (a, b) = (self.word() >> 5, self.word() >> 6);
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }
}
