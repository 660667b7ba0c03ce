#include "actors/tls/tls_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

/// Both ends of a TLS connection, without a network.
struct TwoEnds {
  TlsIdentity identity = tls_library().make_identity();
  std::unique_ptr<TlsContext> context = tls_library().make_context(identity);
  std::unique_ptr<TlsSession> dialler, acceptor = context->accept();

  explicit TwoEnds(const std::string& certificate = "") : dialler(context->dial(certificate)) {}

  static std::vector<std::byte> carry(TlsSession& from, TlsSession& to) {
    std::vector<std::byte> bytes;
    from.take_output(bytes);
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const auto room = to.receive_buffer();
      const std::size_t part = std::min(room.size(), rest.size());
      std::copy_n(rest.begin(), part, room.begin());
      to.commit_received(part);
      rest = rest.subspan(part);
    }
    return bytes;
  }
  void greet() {
    bool dialled = false, accepted = false;
    for (int turn = 0; turn < 4 && !(dialled && accepted); ++turn) {
      dialled = dialler->handshake();
      carry(*dialler, *acceptor);
      accepted = acceptor->handshake();
      carry(*acceptor, *dialler);
    }
    ASSERT_TRUE(dialled && accepted);
  }
};

std::string read(TlsSession& session) {
  std::string text(1 << 20, 0);
  std::size_t count = 0;
  while (const std::size_t more =
             session.read(std::as_writable_bytes(std::span(text)).subspan(count)))
    count += more;
  text.resize(count);
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Tls, BothEndsReadEachOtherAndHaveOneChannelBinding) {
  TwoEnds ends;
  ends.greet();
  EXPECT_EQ(ends.dialler->channel_binding(), ends.acceptor->channel_binding());
  ends.dialler->write(bytes_of("hello"));
  const auto sealed = TwoEnds::carry(*ends.dialler, *ends.acceptor);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(sealed.data()), sealed.size()).find("hello"),
            std::string::npos);
  EXPECT_EQ(read(*ends.acceptor), "hello");
  TwoEnds others;
  others.greet();
  EXPECT_NE(ends.dialler->channel_binding(), others.dialler->channel_binding());
}

TEST(Tls, OnlyTheExpectedCertificateIsTaken) {
  const TwoEnds any;
  const std::string right = tls_library().certificate_sha256(any.identity.certificate);
  EXPECT_EQ(right.size(), 64u);
  TwoEnds ends(right);
  EXPECT_THAT([&] { ends.greet(); },
              test::throws_error(ErrorCode::kFailedPrecondition, right,
                                 tls_library().certificate_sha256(ends.identity.certificate)));
  TwoEnds same;
  same.dialler = same.context->dial(tls_library().certificate_sha256(same.identity.certificate));
  same.greet();
}

TEST(Tls, AKeyThatIsNotTheCertificatesIsRefused) {
  TlsIdentity mixed = tls_library().make_identity();
  mixed.key = tls_library().make_identity().key;
  EXPECT_THAT([&] { (void)tls_library().make_context(mixed); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "the private key is damaged, or not the certificate's"));
  EXPECT_THAT([&] { (void)tls_library().certificate_sha256("no certificate"); },
              test::throws_error(ErrorCode::kInvalidArgument, "not a certificate in PEM"));
}

TEST(Tls, EveryChangedByteOfASealedRecordIsNoticed) {
  for (std::size_t at = 0; at < 40; ++at) {
    TwoEnds ends;
    ends.greet();
    ends.dialler->write(bytes_of("0123456789"));
    std::vector<std::byte> sealed;
    ends.dialler->take_output(sealed);
    sealed[at % sealed.size()] ^= std::byte{1};
    std::copy(sealed.begin(), sealed.end(), ends.acceptor->receive_buffer().begin());
    ends.acceptor->commit_received(sealed.size());
    std::string got;
    EXPECT_TRUE(([&] {
      try {
        got = read(*ends.acceptor);
        return got.empty();  // waits for the rest of a longer record
      } catch (const Error& error) {
        return error.code() == ErrorCode::kDataLoss;
      }
    }()))
        << at << got;
  }
}

TEST(Tls, AConnectionOutlivesItsKey) {
  TwoEnds ends;
  ends.greet();
  const std::string byte = "x";
  std::size_t got = 0;
  constexpr std::size_t kRecords = (1u << 18) + 1000;  // a key is replaced after 2^18 records
  for (std::size_t i = 0; i < kRecords; ++i) {
    ends.dialler->write(bytes_of(byte));
    if (i % 100 != 0) continue;
    TwoEnds::carry(*ends.dialler, *ends.acceptor);
    std::array<std::byte, 256> into;
    while (const std::size_t more = ends.acceptor->read(into)) got += more;
  }
  TwoEnds::carry(*ends.dialler, *ends.acceptor);
  got += read(*ends.acceptor).size();
  EXPECT_EQ(got, kRecords);
}

}  // namespace
}  // namespace weft::actors
