#include "tests/fake_cuda/fake_wire.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace zero3::fake_cuda {
namespace {

constexpr int kLookMs = 5;  // between two looks at whether all is aborted

// In Linux's abstract namespace: nothing is left behind.
sockaddr_un address_of(const std::string& id, int rank) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "zero3-fake-nccl-" + id + "-" + std::to_string(rank);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return address;
}

// One direction of one connection.
struct Stream {
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t moved = 0;
  bool open() const { return moved < bytes; }
};

struct Line {
  int socket = -1;
  std::vector<std::byte> out;
  std::vector<std::byte> in;
  Stream sent;
  Stream received;
};

Line line_to(int socket, const Call& call, const FakeWire::Parcel& parcel) {
  Line line{.socket = socket, .out = {}, .in = {}, .sent = {}, .received = {}};
  line.out.resize(sizeof(Call) + parcel.sent.size());
  std::memcpy(line.out.data(), &call, sizeof(Call));
  std::copy(parcel.sent.begin(), parcel.sent.end(), line.out.begin() + sizeof(Call));
  line.in.resize(sizeof(Call) + parcel.received.size());
  return line;
}

// False: the connection is lost.
bool move_on(Line& line, short events) {
  if ((events & POLLOUT) != 0 && line.sent.open()) {
    const ssize_t moved = ::send(line.socket, line.sent.data + line.sent.moved,
                                 line.sent.bytes - line.sent.moved, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved < 0 && errno != EAGAIN) return false;
    line.sent.moved += static_cast<size_t>(std::max<ssize_t>(moved, 0));
  }
  if ((events & (POLLIN | POLLHUP)) != 0 && line.received.open()) {
    // The call first: what follows it is as long as both sides say only where they say the same.
    const size_t until = line.received.moved < sizeof(Call) ? sizeof(Call) : line.received.bytes;
    const ssize_t moved = ::recv(line.socket, line.received.data + line.received.moved,
                                 until - line.received.moved, MSG_DONTWAIT);
    if (moved == 0 || (moved < 0 && errno != EAGAIN)) return false;
    line.received.moved += static_cast<size_t>(std::max<ssize_t>(moved, 0));
  }
  return true;
}

bool says_otherwise(const Line& line, const Call& call) {
  if (line.received.moved < sizeof(Call)) return false;
  Call other;
  std::memcpy(&other, line.in.data(), sizeof(Call));
  return other != call;
}

}  // namespace

FakeWire::~FakeWire() {
  for (const int socket : sockets_)
    if (socket >= 0) ::close(socket);
  if (listener_ >= 0) ::close(listener_);
}

int FakeWire::connected_to(int rank) const {
  const sockaddr_un address = address_of(id_, rank);
  while (!aborted_) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      (void)!::write(socket, &rank_, sizeof(rank_));
      return socket;
    }
    ::close(socket);
    ::usleep(kLookMs * 1000);
  }
  return -1;
}

bool FakeWire::connect() {
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un own = address_of(id_, rank_);
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) return false;
  ::listen(listener_, static_cast<int>(sockets_.size()));
  for (int rank = 0; rank < rank_; ++rank) sockets_[static_cast<size_t>(rank)] = connected_to(rank);
  for (size_t left = sockets_.size() - static_cast<size_t>(rank_) - 1; left > 0;) {
    pollfd look{.fd = listener_, .events = POLLIN, .revents = 0};
    if (aborted_) return false;
    if (::poll(&look, 1, kLookMs) <= 0) continue;
    const int socket = ::accept(listener_, nullptr, nullptr);
    int rank = 0;
    if (::recv(socket, &rank, sizeof(rank), MSG_WAITALL) != sizeof(rank)) return false;
    sockets_[static_cast<size_t>(rank)] = socket;
    --left;
  }
  return !aborted_;
}

End FakeWire::exchange(const Call& call, std::vector<Parcel>& parcels) {
  std::vector<Line> lines;
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < parcels.size(); ++rank) {
    if (static_cast<int>(rank) == rank_) continue;
    lines.push_back(line_to(sockets_[rank], call, parcels[rank]));
    ranks.push_back(rank);
  }
  for (Line& line : lines) {
    line.sent = {line.out.data(), line.out.size(), 0};
    line.received = {line.in.data(), line.in.size(), 0};
  }
  for (;;) {
    std::vector<pollfd> looks;
    for (const Line& line : lines) {
      const int events = (line.sent.open() ? POLLOUT : 0) | (line.received.open() ? POLLIN : 0);
      looks.push_back(
          {.fd = events == 0 ? -1 : line.socket, .events = static_cast<short>(events), .revents = 0});
    }
    if (std::all_of(looks.begin(), looks.end(), [](const pollfd& look) { return look.fd < 0; })) break;
    if (aborted_) return End::kAborted;
    ::poll(looks.data(), looks.size(), kLookMs);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!move_on(lines[i], looks[i].revents)) return End::kLost;
      if (says_otherwise(lines[i], call)) return End::kDifferent;
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    std::copy(lines[i].in.begin() + sizeof(Call), lines[i].in.end(), parcels[ranks[i]].received.begin());
  }
  return End::kDone;
}

}  // namespace zero3::fake_cuda
