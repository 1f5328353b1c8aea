#include "sim/cli/programs.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/bad_input.h"
#include "sim/cli/common.h"
#include "sim/run_file/run_file.h"

namespace zero3::sim::cli {
namespace {

bool begins_as_run_file(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path, std::ios::binary);
  return std::getline(file, line) && looks_like_run_file(line + "\n");
}

std::vector<std::string> run_files_below(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl" && begins_as_run_file(entry.path()))
      found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<std::string> program_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> runs = run_files_below(path);
    const std::vector<std::string> scenarios = runs.empty() ? scenario_files({path}) : scenarios_below(path);
    files.insert(files.end(), scenarios.begin(), scenarios.end());
    files.insert(files.end(), runs.begin(), runs.end());
  }
  return files;
}

LoadedPrograms load(const ProgramArguments& arguments) { return load(std::vector{arguments}); }

LoadedPrograms load(const std::vector<ProgramArguments>& arguments) {
  LoadedPrograms loaded;
  std::optional<BadInput> first;
  for (const ProgramArguments& asked : arguments) {
    for (const std::string& file : program_files(asked.paths)) {
      try {
        std::vector<TestedProgram> programs = load_programs({file}, asked.ranks, asked.seed);
        std::ranges::move(programs, std::back_inserter(loaded.programs));
      } catch (const BadInput& error) {
        if (first) std::fprintf(stderr, "%s\n", first->what());
        first = error;
      }
    }
  }
  if (!first) return loaded;
  if (loaded.programs.empty()) throw BadInput(*first);
  std::fprintf(stderr, "%s\n", first->what());
  loaded.any_refused = true;
  return loaded;
}

}  // namespace zero3::sim::cli
