// zero3sim bisect: which release made a program bad, which pull request, which flag.
#include <cstdio>

#include "sim/bad_input.h"
#include "sim/bisect/bisect.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"

namespace zero3::sim::cli {

Verdict show_bisection(const BisectArguments& arguments) {
  const Release good = chosen_release(arguments.good, "--good");
  const Release bad = chosen_release(arguments.bad, "--bad");
  const LoadedPrograms loaded = load(arguments.programs);
  if (loaded.programs.size() == 1) {
    const TestedProgram& program = loaded.programs.front();
    const Bisection bisection = bisect(program, good, bad);
    print(arguments.format == Format::kJson ? json_report(bisection, program)
                                            : text_report(bisection, program));
    return loaded.with_refused(Verdict::kAsExpected);
  }
  throw BadInput("bisect takes one program", "name one scenario, or a file of one run");
}

}  // namespace zero3::sim::cli
