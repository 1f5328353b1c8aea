// zero3sim upgrade: what an upgrade changes for these programs.
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/upgrade/upgrade.h"

namespace zero3::sim::cli {

Verdict show_upgrade(const UpgradeArguments& arguments) {
  const Release from = chosen_release(arguments.from, "--from");
  const Release to = chosen_release(arguments.to, "--to");
  const LoadedPrograms loaded = load(arguments.programs);
  const Upgrade upgrade = upgrade_of(loaded.programs, from, to, arguments.strict);
  const std::string text = arguments.format == TableFormat::kJson    ? json_report(upgrade)
                           : arguments.format == TableFormat::kJunit ? junit_report(upgrade)
                                                                     : text_report(upgrade);
  tell(text, arguments.out, "report");
  return loaded.with_refused(upgrade.verdict());
}

}  // namespace zero3::sim::cli
