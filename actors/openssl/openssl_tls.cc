// libweft_tls.so: TLS 1.3 by OpenSSL, the only user of its SSL functions.
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "actors/tls/tls_library.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr std::size_t kReceiveBufferBytes = 32u
                                            << 10;  // exceeds one record, of 16 KiB and some bytes
/// Records after which the key changes. AES-GCM allows some 2^24 records per key (RFC 8446, 5.5); a
/// new key costs nothing.
constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 18;
constexpr std::size_t kRecordBytes = 16u << 10;
constexpr std::string_view kBindingLabel = "EXPORTER-weft";

template <auto kFree>
struct OpenSslDeleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, OpenSslDeleter<X509_free>>;
using MemoryBio = std::unique_ptr<BIO, OpenSslDeleter<BIO_free>>;

/// Returns and clears OpenSSL's latest error of this thread.
std::string last_openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = ERR_reason_error_string(code);
  std::string text = reason != nullptr ? reason : fmt::format("error {:x}", code);
  ERR_clear_error();
  return text;
}

void require(bool done, const char* what) {
  if (!done) throw_error(ErrorCode::kInternal, "TLS: {}: {}", what, last_openssl_error());
}

std::string text_of(BIO* memory) {
  char* begin = nullptr;
  const long size = BIO_get_mem_data(memory, &begin);
  return {begin, static_cast<std::size_t>(size)};
}

MemoryBio memory_of(const std::string& text) {
  return MemoryBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Certificate parse_certificate(const std::string& pem) {
  const MemoryBio memory = memory_of(pem);
  Certificate certificate(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
  if (!certificate)
    throw_error(ErrorCode::kInvalidArgument, "this is not a certificate in PEM: {}",
                last_openssl_error());
  return certificate;
}

std::string sha256_of(const X509* certificate) {
  std::array<unsigned char, 32> digest{};
  unsigned size = digest.size();
  require(X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1, "a digest");
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

/// Buffers of a session, and the BIO that reads and writes them.
class BioBuffers {
 public:
  std::span<std::byte> receive_buffer() {
    if (in_.empty()) in_.resize(kReceiveBufferBytes);
    if (begin_ == end_) begin_ = end_ = 0;
    if (begin_ > 0 && in_.size() - end_ < kReceiveBufferBytes / 2) {
      std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    return std::span(in_).subspan(end_);
  }
  void commit_received(std::size_t count) { end_ += count; }
  void take_output(std::vector<std::byte>& out) {
    if (out.empty()) return std::swap(out, out_);
    out.insert(out.end(), out_.begin(), out_.end());
    out_.clear();
  }

  static const BIO_METHOD* method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made =
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft buffers");
      require(made != nullptr, "a method of I/O");
      BIO_meth_set_read(made, read);
      BIO_meth_set_write(made, write);
      BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {
        return command == BIO_CTRL_FLUSH ? 1 : 0;
      });
      return made;
    }();
    return method;
  }

 private:
  static BioBuffers& of(BIO* bio) { return *static_cast<BioBuffers*>(BIO_get_data(bio)); }
  static int read(BIO* bio, char* into, int size) {
    BioBuffers& self = of(bio);
    const int count = std::min<int>(size, static_cast<int>(self.end_ - self.begin_));
    BIO_clear_retry_flags(bio);
    if (count == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(into, self.in_.data() + self.begin_, count);
    self.begin_ += count;
    return count;
  }
  static int write(BIO* bio, const char* from, int size) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(from);
    BioBuffers& self = of(bio);
    self.out_.insert(self.out_.end(), bytes, bytes + size);
    return size;
  }

  std::vector<std::byte> in_;
  std::size_t begin_ = 0, end_ = 0;
  std::vector<std::byte> out_;
};

class Session final : public TlsSession {
 public:
  Session(SSL_CTX* context, bool dials, std::string certificate)
      : ssl_(SSL_new(context)), expected_(std::move(certificate)) {
    require(ssl_ != nullptr, "a session");
    BIO* const bio = BIO_new(BioBuffers::method());
    require(bio != nullptr, "its buffers");
    BIO_set_data(bio, &buffers_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_app_data(ssl_.get(), this);
    if (dials) {
      SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // calls check()
      SSL_set_connect_state(ssl_.get());
    } else {
      SSL_set_accept_state(ssl_.get());
    }
  }

  std::span<std::byte> receive_buffer() override { return buffers_.receive_buffer(); }
  void commit_received(std::size_t count) override { buffers_.commit_received(count); }
  void take_output(std::vector<std::byte>& out) override { buffers_.take_output(out); }

  bool handshake() override {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) return true;
    if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return false;
    if (!presented_.empty())
      throw_error(
          ErrorCode::kFailedPrecondition,
          "its certificate is sha256:{}, expected sha256:{}: another head listens there, or a "
          "machine impersonates it. Compare with the --cert that `weft head` prints when it starts",
          presented_, expected_);
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
      throw_error(ErrorCode::kFailedPrecondition, "the peer does not accept TLS; {}", kNoTlsHint);
    if (reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE || reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
        reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN)
      throw_error(ErrorCode::kFailedPrecondition,
                  "the peer expects another certificate than this process presents");
    throw_error(ErrorCode::kDataLoss, "the TLS handshake failed: {}", last_openssl_error());
  }

  std::size_t read(std::span<std::byte> into) override {
    if (into.empty()) return 0;
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &count);
    if (result == 1) return count;
    const int error = SSL_get_error(ssl_.get(), result);
    if (error == SSL_ERROR_WANT_READ) return 0;
    if (error == SSL_ERROR_ZERO_RETURN)
      throw_error(ErrorCode::kUnavailable, "connection closed by the other side");
    throw_error(ErrorCode::kDataLoss, "data received over TLS is damaged: {}",
                last_openssl_error());
  }

  void write(std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    ERR_clear_error();
    records_ += (bytes.size() + kRecordBytes - 1) / kRecordBytes;
    if (records_ > kRecordsPerKey) {
      records_ = 0;
      require(SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1, "a new key");
    }
    std::size_t count = 0;
    if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count) != 1 || count != bytes.size())
      throw_error(ErrorCode::kDataLoss, "TLS cannot encrypt outgoing data: {}",
                  last_openssl_error());
  }

  std::array<std::byte, 32> channel_binding() const override {
    std::array<std::byte, 32> binding{};
    require(SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(binding.data()),
                                       binding.size(), kBindingLabel.data(), kBindingLabel.size(),
                                       nullptr, 0, 0) == 1,
            "the binding");
    return binding;
  }

  /// Checks, in the dialler's handshake, that the other side's certificate is the expected one.
  static int check(X509_STORE_CTX* store, void*) {
    auto* const ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* const self = static_cast<Session*>(SSL_get_app_data(ssl));
    if (self->expected_.empty()) return 1;
    const X509* const certificate = X509_STORE_CTX_get0_cert(store);
    const std::string presented = certificate != nullptr ? sha256_of(certificate) : "(none)";
    if (presented == self->expected_) return 1;
    self->presented_ = presented;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  }

 private:
  BioBuffers buffers_;
  const std::unique_ptr<SSL, OpenSslDeleter<SSL_free>> ssl_;
  const std::string expected_;
  std::string presented_;  // set if it differs from expected_
  std::uint64_t records_ = 0;
};

class OpenSslContext final : public TlsContext {
 public:
  explicit OpenSslContext(const TlsIdentity& identity) : context_(SSL_CTX_new(TLS_method())) {
    require(context_ != nullptr, "a context");
    SSL_CTX* const context = context_.get();
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
    require(SSL_CTX_set_ciphersuites(context,
                                     "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
                SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1,
            "its algorithms");
    // No session is resumed: each connection proves the token anew.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    // Idle connections keep their record buffers, 34 KiB: allocating them for each call
    // (SSL_MODE_RELEASE_BUFFERS) costs 5 % of it.
    SSL_CTX_set_cert_verify_callback(context, Session::check, nullptr);
    const Certificate certificate = parse_certificate(identity.certificate);
    const MemoryBio memory = memory_of(identity.key);
    const Key key(PEM_read_bio_PrivateKey(memory.get(), nullptr, nullptr, nullptr));
    if (!key || SSL_CTX_use_certificate(context, certificate.get()) != 1 ||
        SSL_CTX_use_PrivateKey(context, key.get()) != 1)
      throw_error(ErrorCode::kInvalidArgument,
                  "the private key is damaged, or not the certificate's: {}", last_openssl_error());
  }

  std::unique_ptr<TlsSession> accept() override {
    return std::make_unique<Session>(context_.get(), false, "");
  }
  std::unique_ptr<TlsSession> dial(const std::string& certificate) override {
    return std::make_unique<Session>(context_.get(), true, certificate);
  }

 private:
  const std::unique_ptr<SSL_CTX, OpenSslDeleter<SSL_CTX_free>> context_;
};

class Library final : public TlsLibrary {
 public:
  Library() {
    // Ignores the machine's openssl.cnf; registers no exit handler, as the library stays loaded.
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  }

  TlsIdentity make_identity() const override {
    const Key key(EVP_EC_gen("P-256"));
    require(key != nullptr, "a key");
    const Certificate certificate(X509_new());
    require(certificate != nullptr, "a certificate");
    X509* const made = certificate.get();
    std::int64_t serial = 0;
    require(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "random");
    serial &= std::numeric_limits<std::int64_t>::max();
    X509_NAME* const name = X509_get_subject_name(made);
    // Always valid: peers compare its SHA-256 and ignore dates, and machines' clocks differ.
    const bool done = X509_set_version(made, X509_VERSION_3) == 1 &&
                      ASN1_INTEGER_set_int64(X509_get_serialNumber(made), serial) == 1 &&
                      ASN1_TIME_set_string(X509_getm_notBefore(made), "20000101000000Z") == 1 &&
                      ASN1_TIME_set_string(X509_getm_notAfter(made), "99991231235959Z") == 1 &&
                      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                 reinterpret_cast<const unsigned char*>("weft"), -1,
                                                 -1, 0) == 1 &&
                      X509_set_issuer_name(made, name) == 1 &&
                      X509_set_pubkey(made, key.get()) == 1 &&
                      X509_sign(made, key.get(), EVP_sha256()) > 0;
    require(done, "a certificate");
    const MemoryBio key_text(BIO_new(BIO_s_mem())), certificate_text(BIO_new(BIO_s_mem()));
    require(PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                     nullptr) == 1 &&
                PEM_write_bio_X509(certificate_text.get(), made) == 1,
            "PEM");
    return {text_of(key_text.get()), text_of(certificate_text.get())};
  }

  std::string certificate_sha256(const std::string& certificate) const override {
    return sha256_of(parse_certificate(certificate).get());
  }

  std::unique_ptr<TlsContext> make_context(const TlsIdentity& identity) const override {
    return std::make_unique<OpenSslContext>(identity);
  }
};

}  // namespace
}  // namespace weft::actors

extern "C" [[gnu::visibility("default")]] weft::actors::TlsLibrary* weft_tls_plugin(
    std::uint64_t stamp) {
  return stamp == weft::actors::TlsLibrary::stamp() ? new weft::actors::Library : nullptr;
}
