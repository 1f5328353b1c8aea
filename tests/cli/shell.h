// Runs zero3sim as a person does: through a shell, in the repository's root, with the built binary on the PATH.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zero3::cli_test {

struct Outcome {
  int exit_code = -1;  // 124: it did not end in time
  std::string out;
  std::string errors;
};

Outcome shell(const std::string& command, int timeout_s = 60);

// Whether this build has the MPI backend.
bool has_mpi();
// Whether the build has --tensors torch.
bool has_tensors();
// Open MPI wants to be asked where root starts it, or more ranks than there are processors.
inline constexpr const char* kMpiEnvironment =
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1\n";

// A folder of its own, gone at the end of the test.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file; hands back its path.
  std::string write(const std::string& name, std::string_view content) const;
  // Names of everything in it, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::string& path);
std::vector<std::string> lines_of(const std::string& text);
std::string first_line(const std::string& text);
// The command after "reproduce: "; "" if there is none.
std::string reproducer(const std::string& text);
// A word as a shell reads it back.
std::string shell_quoted(const std::string& word);

}  // namespace zero3::cli_test
