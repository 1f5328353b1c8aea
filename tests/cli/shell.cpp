#include "tests/cli/shell.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <sys/wait.h>

namespace zero3::cli_test {

Outcome shell(const std::string& command, int timeout_s) {
  const Folder folder;
  const std::string script = folder.write("command", command + "\n");
  const std::string folder_of_program = std::filesystem::path(ZERO3SIM_EXECUTABLE).parent_path().string();
  const std::string line = "PATH=" + shell_quoted(folder_of_program) + ":$PATH timeout " +
                           std::to_string(timeout_s) + " sh " + shell_quoted(script) + " > " +
                           shell_quoted(folder.path("out")) + " 2> " + shell_quoted(folder.path("errors")) +
                           " < /dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder.path("out")),
          read_file(folder.path("errors"))};
}

bool has_mpi() {
  static const bool has = shell("zero3sim try t:A --backend mpi --ranks 1").exit_code != 5;
  return has;
}

bool has_tensors() {
  static const bool has = shell("zero3sim try t:A --tensors torch").exit_code != 5;
  return has;
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "zero3sim-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, std::string_view content) const {
  std::string file = path(name);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string reproducer(const std::string& text) {
  constexpr std::string_view kLabel = "  reproduce: ";
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(kLabel)) return line.substr(kLabel.size());
  }
  return "";
}

std::string shell_quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace zero3::cli_test
