// zero3sim unroll: a scenario or a program of the short form as a run file.
#include <cerrno>
#include <fstream>
#include <system_error>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim::cli {
namespace {

std::string unroll_file(const UnrollArguments& arguments) {
  const int ranks = arguments.short_form.options.ranks;
  const std::string text = read_text_file(arguments.path);
  if (!looks_like_run_file(text)) {
    const Scenario scenario = parse_scenario(arguments.path, text);
    const uint64_t seed = arguments.seed_given ? arguments.short_form.seed : scenario.seed;
    return write_run(scenario.experiment(arguments.ranks_given ? ranks : scenario.ranks, seed), scenario.name,
                     seed);
  }
  if (arguments.ranks_given || arguments.seed_given) {
    throw BadInput(arguments.path + ": this is a run file: its ranks and its seed are settled",
                   "leave out --ranks and --seed, or name the scenario");
  }
  std::string out;
  for (const RecordedRun& run : read_runs(text, arguments.path)) out += write_run(run);
  return out;
}

void write_file(const std::string& text, const std::string& path) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw BadInput(path + ": cannot be written: " + std::generic_category().message(errno));
}

}  // namespace

Verdict unroll(const UnrollArguments& arguments) {
  const TryArguments& program = arguments.short_form;
  if (arguments.path.empty() == program.program.empty())
    throw BadInput("one thing is unrolled", "name a file, or give --program");
  const std::string text = program.program.empty()
                               ? unroll_file(arguments)
                               : write_run(experiment_of(program), program.program, program.seed);
  if (arguments.out.empty()) {
    print(text);
  } else {
    write_file(text, arguments.out);
  }
  return Verdict::kAsExpected;
}

}  // namespace zero3::sim::cli
