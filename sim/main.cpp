// zero3sim: the command line. Exit codes are sim/verdict.h's, the same for every command.
#include <cstdio>
#include <exception>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"

int main(int argc, char** argv) {
  using namespace zero3::sim;
  CLI::App app{
      "DeepSpeed ZeRO-3's parameter coordinator, as every release behaves: reproduce a failure, see why, and "
      "which release cures it."};
  app.name("zero3sim");
  app.footer(
      "Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 hang, 4 inconclusive, 5 backend "
      "unavailable.");
  app.require_subcommand(1);
  Verdict verdict = Verdict::kAsExpected;
  cli::add_run_command(app, verdict);
  cli::add_try_command(app, verdict);
  cli::add_list_command(app, verdict);
  cli::add_releases_command(app, verdict);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for_help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    app.exit(error);
    return asked_for_help ? 0 : exit_code(Verdict::kBadInput);
  } catch (const BadInput& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return exit_code(Verdict::kBadInput);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code(Verdict::kBadInput);
  }
  return exit_code(verdict);
}
