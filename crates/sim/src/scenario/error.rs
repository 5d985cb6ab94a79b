//! Why a scenario cannot be run.

/// Why a scenario cannot be run: where, what came, what is allowed, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not TOML.
    #[error("{origin}: not TOML: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// The parser's words, with line and column.
        message: String,
    },
    /// A key or value that cannot be.
    #[error("{origin}: {path}: {message}")]
    Value {
        /// The file.
        origin: String,
        /// Where in the scenario.
        path: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A preset nobody ships.
    #[error("{origin}: {path} = {name:?}: no such preset: {known}")]
    Preset {
        /// The file.
        origin: String,
        /// Where in the scenario.
        path: String,
        /// What was asked for.
        name: String,
        /// What there is, and the nearest name.
        known: String,
    },
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ScenarioError>),
    /// The machine cannot be built.
    #[error("{0}")]
    Machine(#[from] machine::MachineError),
    /// The traffic cannot be made.
    #[error("{0}")]
    Traffic(#[from] traffic::TrafficError),
    /// The function cannot be built.
    #[error("function.forward: {0}")]
    Function(#[from] functions::FunctionError),
    /// The user plane function or its sessions cannot be.
    #[error("function.upf: {0}")]
    UserPlane(functions::FunctionError),
    /// Another function cannot be built.
    #[error("{path}: {source}")]
    Application {
        /// Where in the scenario.
        path: &'static str,
        /// Why.
        source: functions::FunctionError,
    },
    /// The user ended it before there was any result.
    #[error("stopped while loading the {during}: nothing was simulated yet, so there is no result")]
    Stopped {
        /// What was being loaded.
        during: String,
    },
    /// Results could not be written.
    #[error("{path}: {message}")]
    Output {
        /// Where to.
        path: String,
        /// Why not.
        message: String,
    },
}

impl ScenarioError {
    /// The setting that it is about, where it is about one.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            ScenarioError::Value { path, .. } => Some(path),
            ScenarioError::Machine(e) => Some(&e.path),
            _ => None,
        }
    }

    /// Whether it is about one of `paths`, or about what is in it.
    pub(super) fn concerns(&self, paths: &[String]) -> bool {
        let Some(own) = self.path() else { return false };
        paths.iter().any(|path| own == *path || own.starts_with(&format!("{path}.")))
    }
}

/// What is wrong with a scenario.
pub(super) struct ScenarioFaults<'a> {
    pub origin: &'a str,
    pub errors: Vec<ScenarioError>,
}

impl ScenarioFaults<'_> {
    pub fn add(&mut self, path: impl Into<String>, message: String) {
        self.errors.push(ScenarioError::Value { origin: self.origin.into(), path: path.into(), message });
    }

    pub fn take<T, E: Into<ScenarioError>>(&mut self, checked: Result<T, E>) {
        self.errors.extend(checked.err().map(Into::into));
    }
}
