#include "sim/verify/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zero3::sim {
namespace {

constexpr size_t kKeptErrors = 1 << 14;  // bytes of stderr
constexpr size_t kShownErrorLines = 12;

struct Pipe {
  int read = -1;
  int write = -1;
};

// Both ends close on exec; the child's become its 0, 1 and 2.
bool make_pipe(Pipe& pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe = {ends[0], ends[1]};
  return true;
}

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

// A child that is gone makes writing fail with EPIPE, and nothing else.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

int spawn(const std::vector<std::string>& arguments, const Pipe& in, const Pipe& out, const Pipe& err,
          pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  posix_spawn_file_actions_adddup2(&actions, err.write, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

std::string ChildProcess::start(const std::vector<std::string>& arguments) {
  stop();
  ignore_broken_pipes();
  to_send_.clear();
  received_.clear();
  errors_.clear();
  exit_status_.reset();
  Pipe in;
  Pipe out;
  Pipe err;
  int error = make_pipe(in) && make_pipe(out) && make_pipe(err) ? 0 : errno;
  if (error == 0) error = spawn(arguments, in, out, err, pid_);
  close_end(in.read);
  close_end(out.write);
  close_end(err.write);
  stdin_ = in.write;
  stdout_ = out.read;
  stderr_ = err.read;
  if (error == 0) {
    fcntl(stdin_, F_SETFL, O_NONBLOCK);
    return "";
  }
  pid_ = -1;
  close_pipes();
  return std::strerror(error);
}

ChildProcess::Read ChildProcess::read_line(std::string& line, Clock::time_point deadline) {
  for (size_t searched = 0;;) {
    const size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return Read::kLine;
    }
    searched = received_.size();
    if (stdout_ < 0) return Read::kEnd;
    if (Clock::now() >= deadline) return Read::kLate;
    poll_once(deadline);
  }
}

void ChildProcess::poll_once(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  std::array<pollfd, 3> polled = {
      {{stdout_, POLLIN, 0}, {stderr_, POLLIN, 0}, {to_send_.empty() ? -1 : stdin_, POLLOUT, 0}}};
  constexpr int64_t kLongest = 1'000'000;
  const int timeout = static_cast<int>(std::clamp<int64_t>(left + 1, 0, kLongest));
  if (poll(polled.data(), polled.size(), timeout) <= 0) return;
  if (polled[1].revents != 0) read_some(stderr_, errors_);
  if (errors_.size() > 2 * kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
  if (polled[0].revents != 0) read_some(stdout_, received_);
  if (polled[2].revents != 0) write_some();
}

void ChildProcess::write_some() {
  const ssize_t written = ::write(stdin_, to_send_.data(), to_send_.size());
  if (written > 0) {
    to_send_.erase(0, static_cast<size_t>(written));
  } else if (errno != EAGAIN && errno != EINTR) {
    to_send_.clear();  // nobody reads: its stdout tells
    close_end(stdin_);
  }
}

void ChildProcess::read_some(int& descriptor, std::string& into) {
  std::array<char, 1 << 16> buffer{};
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  if (count > 0) {
    into.append(buffer.data(), static_cast<size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    close_end(descriptor);
  }
}

std::string ChildProcess::stop(std::chrono::milliseconds grace) {
  if (pid_ <= 0) return "";
  close_end(stdin_);
  int status = 0;
  const Clock::time_point until = Clock::now() + grace;
  pid_t ended = waitpid(pid_, &status, WNOHANG);
  while (ended == 0 && Clock::now() < until) {
    if (stdout_ >= 0 || stderr_ >= 0) {
      poll_once(std::min(until, Clock::now() + std::chrono::milliseconds(20)));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ended = waitpid(pid_, &status, WNOHANG);
  }
  while (stderr_ >= 0 && ended != 0) {  // its last words; a grandchild may hold the pipe
    const size_t before = errors_.size();
    poll_once(Clock::now() + std::chrono::milliseconds(50));
    if (errors_.size() == before) break;
  }
  kill(-pid_, SIGKILL);
  if (ended == 0) waitpid(pid_, &status, 0);
  pid_ = -1;
  close_pipes();
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  exit_status_ = WEXITSTATUS(status);
  return fmt::format("exit status {}", *exit_status_);
}

std::string ChildProcess::stderr_tail() const {
  std::string text = errors_;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t from = text.size();
  for (size_t lines = 0; lines < kShownErrorLines && from != std::string::npos && from > 0; ++lines)
    from = text.rfind('\n', from - 1);
  return from == std::string::npos || from == 0 ? text : text.substr(from + 1);
}

void ChildProcess::close_pipes() {
  close_end(stdin_);
  close_end(stdout_);
  close_end(stderr_);
}

}  // namespace zero3::sim
