// The commands of zero3sim. Each adds itself to the command line and, chosen, runs and gives the verdict that decides
// the exit code.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/verdict.h"

namespace zero3::sim::cli {

// Sets `verdict` when the command ran. What it writes goes to standard output.
void add_run_command(CLI::App& app, Verdict& verdict);
void add_try_command(CLI::App& app, Verdict& verdict);
void add_list_command(CLI::App& app, Verdict& verdict);
void add_releases_command(CLI::App& app, Verdict& verdict);

}  // namespace zero3::sim::cli
