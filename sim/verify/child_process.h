// A child process with pipes at its stdin, stdout and stderr, in a process group of its own.
//
// Writing and reading are polled together, so that neither side waits for the other for ever; a child that is gone
// never ends this process by SIGPIPE. The end of its stderr is kept for messages.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace zero3::sim {

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Read { kLine, kEnd, kLate };

  ChildProcess() = default;
  ~ChildProcess() { stop(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Starts `arguments[0]` (found in PATH). "" if it started; else why not.
  std::string start(const std::vector<std::string>& arguments);
  bool running() const { return pid_ > 0; }

  // Queues text for its stdin; read_line() sends it.
  void send(const std::string& text) { to_send_ += text; }
  // The next line of its stdout, without newline. A last line without newline is no line.
  Read read_line(std::string& line, Clock::time_point deadline);

  // Kills its group, if it is there, and waits for it. How it ended: "exit status 5", "killed by signal 9"; "" if it
  // was not running. `grace`: how long it may take to end by itself when its stdin is closed.
  std::string stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));
  std::optional<int> exit_status() const { return exit_status_; }  // of the last one, if it exited by itself

  // The end of what it wrote to stderr since it started, some lines.
  std::string stderr_tail() const;

 private:
  void poll_once(Clock::time_point deadline);
  void write_some();
  void read_some(int& descriptor, std::string& into);
  void close_pipes();

  pid_t pid_ = -1;
  int stdin_ = -1;
  int stdout_ = -1;
  int stderr_ = -1;
  std::string to_send_;
  std::string received_;
  std::string errors_;
  std::optional<int> exit_status_;
};

}  // namespace zero3::sim
