// The options of the commands whose ranks may live elsewhere, and whose params may have values.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/backends/backend.h"

namespace zero3::sim::cli {

// `backend` must outlive the app.
void add_backend_options(CLI::App& command, BackendOptions& backend);

}  // namespace zero3::sim::cli
