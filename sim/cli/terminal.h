// The terminal that a command writes to: how wide it is, and a line of progress where there is one.
#pragma once

#include <cstddef>
#include <string>

namespace zero3::sim::cli {

// Columns: COLUMNS where it is a number, else standard output's own, else (a pipe, a file) 100.
size_t terminal_columns();

// "[3/66] what" on one line of standard error, rewritten in place; nothing where that is no terminal.
class Progress {
 public:
  explicit Progress(size_t total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next of `total` begins.
  void at(const std::string& what);
  void clear() const;

 private:
  size_t total_;
  size_t count_ = 0;
  bool shown_;
};

}  // namespace zero3::sim::cli
