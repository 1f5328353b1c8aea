// Reads the command line, runs the command, and gives the process's exit code.
#pragma once

namespace zero3::sim::cli {

int run_command_line(int argc, char** argv);

}  // namespace zero3::sim::cli
