// The options of the commands about outcomes on several releases.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "sim/cli/commands.h"

namespace zero3::sim::cli {

// `arguments` and `chosen` must outlive the app.
void add_matrix(CLI::App& app, MatrixArguments& arguments, std::function<Verdict()>& chosen);

void add_bisect(CLI::App& app, BisectArguments& arguments, std::function<Verdict()>& chosen);
void add_upgrade(CLI::App& app, UpgradeArguments& arguments, std::function<Verdict()>& chosen);
void add_regress(CLI::App& app, RegressArguments& arguments, std::function<Verdict()>& chosen);

}  // namespace zero3::sim::cli
