#include "sim/cli/terminal.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace zero3::sim::cli {
namespace {

constexpr size_t kOfAPipe = 100;
constexpr size_t kLeast = 40;

}  // namespace

size_t terminal_columns() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread here
  if (const char* given = std::getenv("COLUMNS")) {
    const std::string_view text = given;
    size_t columns = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
    if (error == std::errc{} && end == text.data() + text.size() && columns > 0)
      return std::max(columns, kLeast);
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kOfAPipe;
  return std::max(size_t{size.ws_col}, kLeast);
}

Progress::Progress(size_t total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}

void Progress::at(const std::string& what) {
  if (shown_) std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", ++count_, total_, what.c_str());
}

void Progress::clear() const {
  if (shown_) std::fputs("\r\033[K", stderr);
}

}  // namespace zero3::sim::cli
