// zero3sim matrix: which program does what on which release.
#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/cli/terminal.h"
#include "sim/matrix/matrix.h"
#include "sim/release_selection.h"
#include "sim/whole_file.h"

namespace zero3::sim::cli {
namespace {

std::string formatted(const Matrix& matrix, TableFormat format) {
  switch (format) {
    case TableFormat::kText: break;
    case TableFormat::kMarkdown: return markdown_report(matrix);
    case TableFormat::kJson: return json_report(matrix);
    case TableFormat::kJunit: return junit_report(matrix);
    case TableFormat::kHtml: return html_report(matrix);
  }
  return text_report(matrix, terminal_columns());
}

}  // namespace

Verdict show_matrix(const MatrixArguments& arguments) {
  const std::vector<Release> releases = parse_releases(arguments.deepspeed, "--deepspeed");
  const LoadedPrograms loaded = load(arguments.programs);
  Progress progress(loaded.programs.size());
  const Matrix matrix =
      matrix_of(loaded.programs, releases, [&](const TestedProgram& program) { progress.at(program.name); });
  progress.clear();
  tell(formatted(matrix, arguments.format), arguments.out, "matrix");
  return loaded.with_refused(matrix.verdict());
}

}  // namespace zero3::sim::cli
