// zero3sim: the command line. Exit codes are sim/verdict.h's, the same for every command.
#include "sim/cli/command_line.h"

int main(int argc, char** argv) { return zero3::sim::cli::run_command_line(argc, argv); }
