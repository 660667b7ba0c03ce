// Tests an attack by another user of the machine, who relays between two processes of a cluster on
// loopback without the token. The relay forwards the handshake, reads, and inserts its own frames.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <deque>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

#include "actors/access/token.h"
#include "actors/agent/agent.h"
#include "actors/message/message.h"
#include "core/base/sha256.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uid_t kNobody = 65534;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Process that relays connections, as another user if this process is root. The destructor kills
/// it.
class Relay final {
 public:
  struct Plan {
    std::uint16_t port = 0;    ///< port of the relay; 0: any
    std::uint16_t target = 0;  ///< port that it relays to
    fs::path transcript;       ///< file that records all bytes
    std::string injected;      ///< frame that is inserted towards the dialler
    int after_reads = 0;       ///< reads from the acceptor before the frame is inserted
    bool once = false;         ///< insert on the first connection only
  };
  explicit Relay(const Plan& plan) : transcript_(plan.transcript) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address = loopback(plan.port);
    bound_ = eventually([&] {
      return ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    });
    ::listen(listener, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    const int out = ::open(transcript_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::geteuid() == 0 &&
          (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
        ::_exit(125);
      serve(listener, out, plan);
    }
    ::close(listener);
    ::close(out);
  }
  ~Relay() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Relay(const Relay&) = delete;
  bool bound() const { return bound_; }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  /// Returns all relayed bytes, of both directions and all connections.
  std::string heard() const { return read_file(transcript_); }

 private:
  /// Relay of one direction. Renumbers the frames that it can read, so that frames can be inserted.
  struct Way {
    int from, to;
    bool to_dialler;
    int reads = 0;
    std::uint64_t sequence = 0;
    std::string rest = {};

    void send(const std::string& bytes) const {
      (void)::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    void put(std::string frame) {
      using namespace actors;
      std::uint64_t before = 0;
      std::memcpy(&before, frame.data() + 16, sizeof before);
      FrameHeader header =
          unpack(std::as_bytes(std::span(frame)).first<kFrameHeaderBytes>(), before, kMaxFrameBody);
      header.sequence = sequence++;
      const auto packed = pack(header);
      std::memcpy(frame.data(), packed.data(), packed.size());
      send(frame);
    }
    void pass_on(const std::string& bytes) {
      rest += bytes;
      while (rest.starts_with("WEFT")) {
        std::uint32_t length = 0;
        if (rest.size() < actors::kFrameHeaderBytes) return;
        std::memcpy(&length, rest.data() + 8, sizeof length);
        const std::size_t size = actors::kFrameHeaderBytes + actors::padded(length);
        if (rest.size() < size) return;
        put(rest.substr(0, size));
        rest.erase(0, size);
      }
      send(std::exchange(rest, {}));
    }
  };

  [[noreturn]] static void serve(int listener, int out, const Plan& plan) {
    std::deque<Way> ways;
    bool done = false;
    while (true) {
      std::vector<pollfd> polled = {{listener, POLLIN, 0}};
      for (const Way& way : ways) polled.push_back({way.from, POLLIN, 0});
      ::poll(polled.data(), polled.size(), -1);
      for (std::size_t i = 1; i < polled.size(); ++i) {
        Way& way = ways[i - 1];
        if (way.from < 0 || polled[i].revents == 0) continue;
        char bytes[65536];
        const ssize_t count = ::recv(way.from, bytes, sizeof bytes, 0);
        if (count <= 0) {
          ::shutdown(way.to, SHUT_RDWR);
          way.from = -1;
          continue;
        }
        [[maybe_unused]] const auto kept = ::write(out, bytes, static_cast<std::size_t>(count));
        way.pass_on(std::string(bytes, static_cast<std::size_t>(count)));
        if (!way.to_dialler || ++way.reads != plan.after_reads || (plan.once && done)) continue;
        done = true;
        way.put(plan.injected);
      }
      if ((polled[0].revents & POLLIN) == 0) continue;
      const int near = ::accept(listener, nullptr, nullptr);
      const int far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = loopback(plan.target);
      if (::connect(far, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        ::close(near);
        ::close(far);
        continue;
      }
      ways.push_back({near, far, false});
      ways.push_back({far, near, true});
    }
  }

  const fs::path transcript_;
  bool bound_ = false;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
};

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
}

/// Returns the port on which a process listens.
std::uint16_t listening_port(pid_t pid) {
  std::set<std::string> sockets;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    std::error_code ignored;
    sockets.insert(fs::read_symlink(entry, ignored).string());
  }
  std::istringstream lines(read_file(fmt::format("/proc/{}/net/tcp", pid)));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    if (fields.size() > 9 && fields[3] == "0A" && sockets.contains("socket:[" + fields[9] + "]"))
      return static_cast<std::uint16_t>(
          std::stoi(fields[1].substr(fields[1].find(':') + 1), nullptr, 16));
  }
  throw std::runtime_error("it listens nowhere");
}

/// Returns a frame that asks an agent to start `program`.
std::string launch_of(const fs::path& program) {
  actors::LaunchRequest request;
  request.key = {"stolen", 1};
  request.term = 1'000'000;
  request.binary = program.string();
  request.binary_sha256 = sha256_file(program);
  request.devices = {{0, 0, "stolen[0]"}};
  actors::Call call;
  call.id = 77;
  call.actor = actors::actor_id_of("agent");
  call.interface_fingerprint = actors::interface_fingerprint<actors::Agent>();
  call.method = actors::method_index<actors::Agent, &actors::Agent::launch>();
  call.arguments = encode(std::tuple(request));
  std::string text;
  actors::encode_call(call, [&](const actors::MessageBytes& message) {
    const std::vector<std::byte> body = message.joined();
    actors::FrameHeader header;
    header.major = actors::kProtocolMajor;
    header.kind = static_cast<std::uint8_t>(actors::MessageKind::kCall);
    header.length = static_cast<std::uint32_t>(body.size());
    const auto packed = actors::pack(header);
    text.assign(reinterpret_cast<const char*>(packed.data()), packed.size());
    text.append(reinterpret_cast<const char*>(body.data()), body.size());
    text.resize(actors::kFrameHeaderBytes + actors::padded(body.size()));
  });
  return text;
}

class RelayTest : public ::testing::Test {
 protected:
  RelayTest() {
    fs::permissions(processes.directory(), fs::perms(0777));
    program = processes.write("stolen", "#!/bin/sh\nid > '" + marker().string() + "'\n");
    fs::permissions(program, fs::perms(0755));
  }
  fs::path marker() const { return processes.directory() / "ran"; }
  RealProcesses::Process& start_head(const std::string& address) {
    return processes.start("weft", {"head", "--listen", address, "--state", "state"});
  }
  std::vector<std::string> join(const std::string& address, const std::string& name) const {
    return {"join", address,        "--name",
            name,   "--token-file", (processes.directory() / "state" / "token").string()};
  }

  RealProcesses processes{"relay"};
  fs::path program;
};

TEST_F(RelayTest, BetweenAHostAndItsHeadItReadsNothingAndNothingOfItsIsDone) {
  auto& head = start_head("127.0.0.1:0");
  const std::string address = head.word_after("Weft's head listens on ");
  // Order of frames: challenge and proof, welcome, reply to the join.
  const Relay relay({.target = port_of(address),
                     .transcript = processes.directory() / "transcript",
                     .injected = launch_of(program),
                     .after_reads = 3,
                     .once = true});
  auto& agent = processes.start("weft", join(relay.address(), "a"));
  agent.word_after("has joined cluster");
  // The inserted frame is detected, and the host reconnects.
  agent.word_after("received data failed authentication:");
  agent.word_after("is back after");
  ASSERT_EQ(processes.run("weft", {"token", "rotate", "--head", address}).wait(), 0);
  const std::string token = read_file(processes.directory() / "state" / "token").substr(0, 64);
  agent.word_after("the cluster's new token");
  const std::string heard = relay.heard();
  EXPECT_GT(heard.size(), 1000u);
  EXPECT_THAT(heard, HasSubstr("WEFT"));
  EXPECT_THAT(heard, Not(HasSubstr(token)));
  const Secret secret = Secret::parse(token);
  EXPECT_THAT(heard, Not(HasSubstr(std::string(reinterpret_cast<const char*>(secret.bytes().data()),
                                               Secret::kBytes))));
  EXPECT_FALSE(fs::exists(marker()));
}

TEST_F(RelayTest, AtTheAddressOfADeadHeadItFindsNoOtherOne) {
  auto& head = start_head("127.0.0.1:0");
  const std::string address = head.word_after("Weft's head listens on ");
  auto& one = processes.start("weft", join(address, "one"));
  auto& other = processes.start("weft", join(address, "other"));
  one.word_after("has joined cluster");
  other.word_after("has joined cluster");
  ::kill(head.pid, SIGKILL);
  head.wait();
  {
    const Relay relay({.port = port_of(address),
                       .target = listening_port(other.pid),
                       .transcript = processes.directory() / "transcript",
                       .injected = launch_of(program),
                       .after_reads = 1});
    ASSERT_TRUE(relay.bound());
    other.word_after("tried to connect to a head, but other (weft, pid");
    EXPECT_THAT(relay.heard(), HasSubstr("WEFT"));
  }
  start_head(address).word_after("Weft's head listens on ");
  one.word_after("is back after");
  other.word_after("is back after");
  EXPECT_FALSE(fs::exists(marker()));
}

}  // namespace
}  // namespace weft::test
