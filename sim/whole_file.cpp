#include "sim/whole_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "sim/bad_input.h"

namespace zero3::sim {

void write_whole_file(const std::string& path, const std::string& text, const std::string& what) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw BadInput(fmt::format("cannot write the {} {}: it is there and no regular file", what, path),
                   "nothing was written");
  }
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  error.clear();
  if (file) std::filesystem::rename(partial, path, error);
  if (file && !error) return;
  const std::string reason = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(partial, error);
  throw BadInput(fmt::format("cannot write the {} {}: {}", what, path, reason), "nothing was written");
}

}  // namespace zero3::sim
