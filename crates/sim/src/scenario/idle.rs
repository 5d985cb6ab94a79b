//! Settings that have nothing to do, and what was changed on the way, in words.

use machine::cache::Replacement;
use machine::dram::PagePolicy;
use machine::dram::policy::Page;
use machine::memory::LlcSpec;

use super::functions::FunctionKind;
use super::gpus;
use super::spec::Scenario;

impl Scenario {
    /// Settings that do nothing here, in words.
    pub(crate) fn idle_settings(&self) -> Vec<String> {
        let f = &self.function;
        let mut idle = self.replaced.clone();
        if f.forward.table.is_some() && ![FunctionKind::Forward, FunctionKind::Lookup].into_iter().any(|k| f.has(k)) {
            let made = self.traffic.capture.is_none() && f.kind != FunctionKind::Upf;
            let left = if made { "it only says where made packets go" } else { "it has nothing to do" };
            idle.push(format!("function.forward.table: this function has no routes, so {left}"));
        }
        let copies =
            f.copy.is_some() || f.socket.is_some() || f.has(FunctionKind::Fragment) || f.has(FunctionKind::Trace);
        let m = &self.machine;
        let given = [("machine.copy_table", m.copy_table.is_some()), ("machine.copy_engine", m.copy_engine.is_some())];
        let without_copies = given.into_iter().filter(|(_, given)| *given && !copies);
        idle.extend(without_copies.map(|(path, _)| {
            format!("{path} has nothing to do: this function copies nothing (function.copy and function.socket copy packets)")
        }));
        let (llc, usual) = (&m.llc, LlcSpec::USUAL_AGES);
        let by_age = matches!(llc.replacement, Replacement::Age | Replacement::AgeRandom);
        for (key, class) in &m.clos {
            if class.cores.is_empty() && class.neighbours.is_empty() && !matches!(key.as_str(), "0" | "1" | "2") {
                idle.push(format!(
                    "machine.clos.{key} has nothing to do: nobody is in it (give it cores or neighbours)"
                ));
            }
        }
        if !by_age && (llc.core_age, llc.io_age) != usual {
            idle.push(
                "machine.llc.core_age and io_age have nothing to do: only machine.llc.replacement = \"age\" or \"age_random\" \
                 looks at them"
                    .into(),
            );
        }
        if self.nic.cache_cells > 0
            && llc.io_ways.count() != 0
            && self.nic.output_block.is_none()
            && self.policy.is_none()
        {
            idle.push(
                "nic.cache_cells has nothing to do: the LLC's I/O ways take what the NIC writes, and it reads each packet in one \
                 go (machine.llc.io_ways = 0 has it written past the LLC, nic.output_block has queues take turns)"
                    .into(),
            );
        }
        let dram = &self.machine.dram;
        let closes = dram.page != PagePolicy::Open
            || dram.controller.as_ref().is_some_and(|c| c.page.is_some_and(|page| page != Page::Open));
        if dram.all_hits && closes {
            idle.push(
                "machine.dram.page and controller.page have nothing to do: with machine.dram.all_hits every row is open".into(),
            );
        }
        idle.extend(f.unused().into_iter().map(|table| {
            let kind = toml::Value::try_from(f.kind).map_or_else(|_| String::new(), |kind| kind.to_string());
            format!(
                "function.{table} has nothing to do: function.kind is {kind}, and no member of its chain is set by it"
            )
        }));
        if let Some(gpu) = &m.gpu
            && gpu.coherent
            && gpu.flush != gpus::flush()
        {
            idle.push(
                "machine.gpu.flush has nothing to do: caches are coherent with this GPU (machine.gpu.coherent = false has cores \
                 flush what it uses)"
                    .into(),
            );
        }
        if llc.core_ways.is_some() && self.policy.is_some() {
            idle.push("machine.llc.core_ways has nothing to do: the policy sets the ways of all classes".into());
        }
        idle
    }
}
