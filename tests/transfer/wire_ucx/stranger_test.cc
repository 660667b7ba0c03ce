// Tests a stranger that reaches a device's port and speaks UCX, but does not know the senders'
// secret.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/cluster_token.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"
#include "transfer/wire_ucx/internal/ucx_address.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"
#include "transfer/wire_ucx/internal/wire_header.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::transfer {
namespace {

using namespace std::chrono_literals;

/// Stores received messages.
class Ears final : public WireEvents {
 public:
  void message_arrived(const Message& message) override {
    heard.emplace_back(reinterpret_cast<const char*>(message.header.data()), message.header.size());
    senders.push_back(message.sender);
    wire->release(message.id);
  }
  void receive_finished(Token, const Outcome<void>&) override {}
  void send_finished(Token, const Outcome<void>&) override { ++sent; }
  void peer_lost(DeviceId, const Error&) override { ++lost; }
  void message_refused(std::optional<DeviceId> claimed, std::string_view why) override {
    refused.emplace_back(claimed, why);
  }
  Wire* wire = nullptr;
  std::vector<std::string> heard;
  std::vector<DeviceId> senders;
  std::vector<std::pair<std::optional<DeviceId>, std::string>> refused;
  int sent = 0;
  int lost = 0;
};

struct End {
  End(std::uint32_t id, const Secret& secret)
      : wire(make_ucx_wire(DeviceId(id), HostId(id), {.secret = secret, .interfaces = "lo"})) {
    ears.wire = wire.get();
    wire->set_events(ears);
  }
  Ears ears;
  std::unique_ptr<Wire> wire;
};

/// Sends arbitrary messages to the receiving worker of a wire.
class Forger final {
 public:
  explicit Forger(const End& victim)
      : worker_(
            Transports::kTcp, "lo",
            [](void*, const void*, std::size_t, void*, std::size_t, const ucp_am_recv_param_t*) {
              return UCS_OK;
            },
            nullptr),
        endpoint_(worker_.connect(
            UcxAddress::parse(victim.wire->self(), victim.wire->address()).tcp.at(0).receiving,
            [](void*, ucp_ep_h, ucs_status_t) {}, nullptr)) {}
  ~Forger() {
    worker_.close(endpoint_, UcxWorker::Close::kForce);
    for (int i = 0; i < 100 && worker_.num_closing() > 0; ++i) worker_.progress();
  }

  void send(std::vector<std::byte> bytes, std::span<const std::byte> payload,
            bool rendezvous = false) {
    // UCX may use the header until the send ends.
    const std::vector<std::byte>& header = headers_.emplace_back(std::move(bytes));
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    void* request = ucp_am_send_nbx(endpoint_, 0, header.data(), header.size(), payload.data(),
                                    payload.size(), &params);
    if (UCS_PTR_IS_PTR(request)) requests_.push_back(request);
  }
  std::size_t sent() const { return headers_.size(); }
  /// Progresses until all sends have ended and `done`. Returns false after kPatience.
  template <typename Done>
  bool finish(End& victim, Done&& done) {
    const auto until = std::chrono::steady_clock::now() + test::kPatience;
    const auto left = [](void* request) {
      return ucp_request_check_status(request) != UCS_INPROGRESS;
    };
    while (!std::ranges::all_of(requests_, left) || !done()) {
      if (std::chrono::steady_clock::now() > until) return false;
      worker_.progress();
      victim.wire->progress();
    }
    for (void* request : requests_) ucp_request_free(request);
    requests_.clear();
    return true;
  }
  /// Progresses until the victim has refused all messages.
  bool finish_refused(End& victim) {
    return finish(victim, [&] { return victim.ears.refused.size() == sent(); });
  }

 private:
  UcxWorker worker_;
  ucp_ep_h endpoint_;
  std::vector<void*> requests_;
  std::deque<std::vector<std::byte>> headers_;
};

std::vector<std::byte> message(WireHeader::Kind kind, std::uint32_t sender,
                               const SenderProof& proof, std::string_view header,
                               std::uint64_t value = 1 << 20) {
  const WireHeader prefix{kind, sender, value, proof};
  std::vector<std::byte> bytes(sizeof(prefix) + header.size());
  std::memcpy(bytes.data(), &prefix, sizeof(prefix));
  std::memcpy(bytes.data() + sizeof(prefix), header.data(), header.size());
  return bytes;
}

TEST(Stranger, AWireWithoutASecretIsRefused) {
  EXPECT_EQ(
      test::error_of([] { (void)make_ucx_wire(DeviceId(0), HostId(0), UcxOptions{}); }).code(),
      ErrorCode::kInvalidArgument);
}

TEST(Stranger, MessagesWithoutTheSecretAreIgnored) {
  const Secret secret = test::cluster_token();
  End victim(0, secret), friendly(1, secret);
  Forger forger(victim);
  const std::vector<std::byte> large(1 << 20);
  const SenderProof wrong = proof_of_sender(Secret::random(), DeviceId(1), DeviceId(0));
  const SenderProof of_another = proof_of_sender(secret, DeviceId(2), DeviceId(0));
  const SenderProof for_another = proof_of_sender(secret, DeviceId(1), DeviceId(2));
  for (const SenderProof& proof : {SenderProof{}, wrong, of_another, for_another}) {
    for (std::uint32_t kind = WireHeader::kMessage; kind <= WireHeader::kUnbuffered; ++kind)
      forger.send(message(static_cast<WireHeader::Kind>(kind), 1, proof, "poison"), {});
    forger.send(message(WireHeader::kMessage, 1, proof, "poison"), std::span(large).first(1000));
    forger.send(message(WireHeader::kMessage, 1, proof, "poison"), large, true);
  }
  EXPECT_TRUE(forger.finish_refused(victim)) << "what is refused does not stay";
  EXPECT_TRUE(victim.ears.heard.empty());
  for (const auto& [claimed, why] : victim.ears.refused) {
    EXPECT_EQ(claimed, DeviceId(1));
    EXPECT_EQ(why, "its sender does not know the secret of this run");
  }

  // Device 1 itself can still connect and send.
  victim.wire->connect(DeviceId(1), HostId(1), friendly.wire->address());
  friendly.wire->connect(DeviceId(0), HostId(0), victim.wire->address());
  const std::string_view hello = "hello";
  friendly.wire->send(DeviceId(0), std::as_bytes(std::span(hello)), {}, Token(1));
  const auto until = std::chrono::steady_clock::now() + test::kPatience;
  while (victim.ears.heard.empty() && std::chrono::steady_clock::now() < until) {
    victim.wire->progress();
    friendly.wire->progress();
  }
  EXPECT_EQ(victim.ears.heard, std::vector<std::string>{"hello"});
  EXPECT_EQ(victim.ears.senders, std::vector{DeviceId(1)});
  EXPECT_EQ(victim.ears.lost + friendly.ears.lost, 0);
}

TEST(Stranger, AMessageWithTheSecretIsReceived) {
  End victim(0, test::cluster_token());
  Forger forger(victim);
  forger.send(message(WireHeader::kMessage, 1,
                      proof_of_sender(test::cluster_token(), DeviceId(1), DeviceId(0)), "header"),
              {});
  EXPECT_TRUE(forger.finish(victim, [&] { return !victim.ears.heard.empty(); }));
  EXPECT_EQ(victim.ears.heard, std::vector<std::string>{"header"})
      << "so the test above refuses for the right reason";
}

// Damaged messages do not pass the proof unless they are intact.
TEST(DataPlaneFuzz, DamagedMessagesAreDropped) {
  End victim(0, test::cluster_token());
  Forger forger(victim);
  test::Mutator mutator(11);
  const auto sound =
      message(WireHeader::kMessage, 1,
              proof_of_sender(test::cluster_token(), DeviceId(1), DeviceId(0)), "header");
  for (int round = 0; round < 2'000; ++round) {
    auto damaged = mutator.damage(std::span(sound).first(sizeof(WireHeader)));
    const bool whole =
        damaged.size() >= sizeof(WireHeader) &&
        std::equal(sound.begin(), sound.begin() + sizeof(WireHeader), damaged.begin());
    if (whole) continue;
    // The proof does not cover kind and value: see the next test.
    const auto parsed = WireHeader::parse(damaged);
    if (parsed && parsed->sender == 1 && parsed->proof == WireHeader::parse(sound)->proof) continue;
    forger.send(std::move(damaged), {});
    if (round % 100 == 0) {
      ASSERT_TRUE(forger.finish_refused(victim));
    }
  }
  EXPECT_TRUE(forger.finish_refused(victim));
  EXPECT_TRUE(victim.ears.heard.empty());
}

TEST(DataPlaneFuzz, WrongByteCountsOfAnAuthenticatedDeviceAreHarmless) {
  const Secret secret = test::cluster_token();
  End victim(0, secret), friendly(1, secret);
  victim.wire->connect(DeviceId(1), HostId(1), friendly.wire->address());
  friendly.wire->connect(DeviceId(0), HostId(0), victim.wire->address());
  Forger forger(victim);
  const SenderProof proof = proof_of_sender(secret, DeviceId(1), DeviceId(0));
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    for (const auto kind :
         {WireHeader::kCredit, WireHeader::kBuffered, WireHeader::kUnbuffered, WireHeader::kHello})
      forger.send(message(kind, 1, proof, "", value), {});
  }
  forger.send(message(WireHeader::kMessage, 1, proof, "last"), {});
  EXPECT_TRUE(forger.finish(victim, [&] { return !victim.ears.heard.empty(); }));

  // Sends still work, eager and not.
  const std::vector<std::byte> small(1000), large(1 << 20);
  for (int i = 0; i < 50; ++i)
    victim.wire->send(DeviceId(1), {}, i % 2 == 0 ? small : large, Token(i));
  const auto until = std::chrono::steady_clock::now() + test::kPatience;
  while (victim.ears.sent < 50 && std::chrono::steady_clock::now() < until) {
    victim.wire->progress();
    friendly.wire->progress();
  }
  EXPECT_EQ(victim.ears.sent, 50);
  EXPECT_EQ(friendly.ears.heard.size(), 50u);
  EXPECT_GE(friendly.wire->network_bytes_received(), 25u * small.size())
      << "what is not wanted stays at its sender";
}

TEST(DataPlaneFuzz, DamagedAddressesAreRefused) {
  const End end(0, test::cluster_token());
  const auto sound = end.wire->address();
  test::Mutator mutator(12);
  for (int round = 0; round < 4'000; ++round) {
    SCOPED_TRACE(round);
    const auto damaged = mutator.damage(sound);
    if (damaged == sound) continue;
    EXPECT_EQ(test::error_of([&] { (void)UcxAddress::parse(DeviceId(0), damaged); }).code(),
              ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace weft::transfer
