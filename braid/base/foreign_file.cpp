#include "braid/base/foreign_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid {
namespace {

using namespace std::string_view_literals;

struct Description {
  std::string_view name;
  std::string_view cure;
};

constexpr std::string_view kDownload =
    "download the file itself (its page's \"download\" or \"raw\" link; a gated model needs a login)";
constexpr std::string_view kToSafetensors =
    "convert it to safetensors, as with transformers' from_pretrained(DIR).save_pretrained(NEW_DIR)";
constexpr std::string_view kToText = "convert it to text or JSON lines first";
constexpr std::string_view kOtherFile = "pass another file";

Description describe(FileFormat format) {
  switch (format) {
    case FileFormat::kText:
      return {"a text file", kOtherFile};
    case FileFormat::kBinary:
      return {"a binary file", kOtherFile};
    case FileFormat::kEmpty:
      return {"an empty file", "copy or download it again"};
    case FileFormat::kGitLfsPointer:
      return {"a Git LFS pointer", "run git lfs pull in its repository"};
    case FileFormat::kServerMessage:
      return {"a web server's error message", kDownload};
    case FileFormat::kHtml:
      return {"an HTML page", kDownload};
    case FileFormat::kXml:
      return {"an XML document", kDownload};
    case FileFormat::kJson:
      return {"a JSON file", kOtherFile};
    case FileFormat::kUtf16:
      return {"UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"};
    case FileFormat::kTiktoken:
      return {"a tiktoken vocabulary", "use the model's tokenizer.json, which tools/hf_tokenize.py reads"};
    case FileFormat::kSentencePiece:
      return {"a SentencePiece model", "pass it as the tokenizer"};
    case FileFormat::kSafetensors:
      return {"a safetensors file", "pass its directory as the model"};
    case FileFormat::kTokenIndex:
      return {"a Megatron index (.idx)", "pass its prefix as input_dir"};
    case FileFormat::kOldTokenIndex:
      return {"an index of Megatron's old lazy or cached format (TNTIDX)",
              "prepare the text again as mmap files"};
    case FileFormat::kTorch:
      return {"a file of torch.save", kToSafetensors};
    case FileFormat::kPickle:
      return {"a Python pickle", kToSafetensors};
    case FileFormat::kGguf:
      return {"a GGUF model", "use the model in Hugging Face's format"};
    case FileFormat::kNumpy:
      return {"a numpy array (.npy)", kToText};
    case FileFormat::kHdf5:
      return {"an HDF5 file", kToText};
    case FileFormat::kParquet:
      return {"a Parquet file",
              "convert it to JSON lines, as with Python's pandas.read_parquet(FILE).to_json(NEW, "
              "orient=\"records\", lines=True)"};
    case FileFormat::kArrow:
      return {"an Arrow file",
              "convert it to JSON lines, as with Python's "
              "datasets.Dataset.from_file(FILE).to_json(NEW)"};
    case FileFormat::kSqlite:
      return {"an SQLite database", kToText};
    case FileFormat::kGzip:
      return {"compressed by gzip", "decompress it with gunzip"};
    case FileFormat::kZstd:
      return {"compressed by zstd", "decompress it with unzstd"};
    case FileFormat::kXz:
      return {"compressed by xz", "decompress it with unxz"};
    case FileFormat::kBzip2:
      return {"compressed by bzip2", "decompress it with bunzip2"};
    case FileFormat::kLz4:
      return {"compressed by lz4", "decompress it with unlz4"};
    case FileFormat::kZip:
      return {"a zip archive", "unpack it with unzip"};
    case FileFormat::kSevenZip:
      return {"a 7z archive", "unpack it with 7z x"};
    case FileFormat::kTar:
      return {"a tar archive", "unpack it with tar -xf"};
    case FileFormat::kPdf:
      return {"a PDF document", kToText};
    case FileFormat::kImage:
      return {"an image", kOtherFile};
    case FileFormat::kProgram:
      return {"a compiled program or library", kOtherFile};
  }
  throw InternalError(cat("file format ", static_cast<int>(format), " does not exist"));
}

struct Magic {
  std::string_view bytes;
  FileFormat format;
};

constexpr std::array kMagics = {
    Magic{"version https://git-lfs.github.com"sv, FileFormat::kGitLfsPointer},
    Magic{"MMIDIDX\0\0"sv, FileFormat::kTokenIndex},
    Magic{"TNTIDX\0\0"sv, FileFormat::kOldTokenIndex},
    Magic{"GGUF"sv, FileFormat::kGguf},
    Magic{"\x93NUMPY"sv, FileFormat::kNumpy},
    Magic{"\x89HDF\r\n\x1a\n"sv, FileFormat::kHdf5},
    Magic{"PAR1"sv, FileFormat::kParquet},
    Magic{"ARROW1\0"sv, FileFormat::kArrow},
    Magic{"\xff\xff\xff\xff"sv, FileFormat::kArrow},  // a stream, as Hugging Face's datasets writes them
    Magic{"SQLite format 3\0"sv, FileFormat::kSqlite},
    Magic{"\x1f\x8b"sv, FileFormat::kGzip},
    Magic{"\x28\xb5\x2f\xfd"sv, FileFormat::kZstd},
    Magic{"\xfd\x37zXZ\0"sv, FileFormat::kXz},
    Magic{"BZh"sv, FileFormat::kBzip2},
    Magic{"\x04\x22\x4d\x18"sv, FileFormat::kLz4},
    Magic{"PK\x03\x04"sv, FileFormat::kZip},
    Magic{"PK\x05\x06"sv, FileFormat::kZip},
    Magic{"7z\xbc\xaf\x27\x1c"sv, FileFormat::kSevenZip},
    Magic{"%PDF-"sv, FileFormat::kPdf},
    Magic{"\x89PNG\r\n"sv, FileFormat::kImage},
    Magic{"\xff\xd8\xff"sv, FileFormat::kImage},
    Magic{"GIF87a"sv, FileFormat::kImage},
    Magic{"GIF89a"sv, FileFormat::kImage},
    Magic{"\x7f"
          "ELF"sv,
          FileFormat::kProgram},
    Magic{"\xff\xfe"sv, FileFormat::kUtf16},
    Magic{"\xfe\xff"sv, FileFormat::kUtf16},
};

// Three of the magics are plain letters, with which a text may begin as well.
bool is_confirmed(FileFormat format, std::string_view head) {
  switch (format) {
    case FileFormat::kBzip2:
      return head.size() >= 10 && head.substr(4, 6) == "1AY&SY";
    case FileFormat::kParquet:
    case FileFormat::kGguf:
      return head.find('\0') != std::string_view::npos;
    default:
      return true;
  }
}

std::optional<FileFormat> by_magic(std::string_view head) {
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes) && is_confirmed(magic.format, head)) return magic.format;
  }
  constexpr size_t kTarMagicAt = 257;
  if (head.size() > kTarMagicAt && head.substr(kTarMagicAt).starts_with("ustar")) return FileFormat::kTar;
  return std::nullopt;
}

// Source: Python's pickletools, opcode PROTO, versions 2 to 5.
bool is_pickle(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x80' && 2 <= head[1] && head[1] <= 5;
}

// The number with which torch.save began its files before it wrote zip archives.
constexpr std::string_view kTorchNumber = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;

bool is_torch_zip(std::string_view head) { return head.find("/data.pkl") != std::string_view::npos; }

bool is_safetensors(std::string_view head, int64_t bytes) {
  uint64_t header_bytes = 0;
  if (head.size() < sizeof(header_bytes) + 2) return false;
  std::memcpy(&header_bytes, head.data(), sizeof(header_bytes));
  return header_bytes >= 2 && header_bytes <= static_cast<uint64_t>(bytes) - sizeof(header_bytes) &&
         head[8] == '{';
}

// A ModelProto begins with a piece (field 1), which begins with its text (field 1). Source:
// sentencepiece_model.proto.
bool is_sentencepiece(std::string_view head) {
  if (head.size() < 5 || head[0] != '\x0a' || head[2] != '\x0a') return false;
  const auto message_bytes = static_cast<unsigned char>(head[1]);
  const auto text_bytes = static_cast<unsigned char>(head[3]);
  // Afterwards the piece's score, a float (field 2), unless the piece ends.
  const size_t after = 4 + static_cast<size_t>(text_bytes);
  if (message_bytes >= 0x80 || text_bytes + 2 > message_bytes || after >= head.size()) return false;
  return head[after] == '\x15' || head[after] == '\x18' || head[after] == '\x0a';
}

// Lines of a token in base64, a space, and its rank.
bool is_tiktoken(std::string_view head) {
  int lines = 0;
  while (lines < 3) {
    const size_t end = head.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = head.substr(0, end);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space < 4 || space % 4 != 0) return false;
    if (parse_int(line.substr(space + 1)) != lines) return false;
    const bool is_base64 = std::ranges::all_of(line.substr(0, space), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '=';
    });
    if (!is_base64) return false;
    ++lines;
    head.remove_prefix(end + 1);
  }
  return lines == 3;
}

bool begins_with_word(std::string_view text, std::string_view lower_case_word) {
  if (text.size() < lower_case_word.size()) return false;
  return std::ranges::equal(text.substr(0, lower_case_word.size()), lower_case_word,
                            [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
}

FileFormat text_format(std::string_view head, int64_t bytes) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const std::string_view text = trim(head);
  if (begins_with_word(text, "<!doctype html") || begins_with_word(text, "<html")) return FileFormat::kHtml;
  if (begins_with_word(text, "<?xml")) return FileFormat::kXml;
  if (text.starts_with('{') || text.starts_with('[')) return FileFormat::kJson;
  constexpr int64_t kLongestMessage = 300;
  for (const std::string_view message :
       {"Entry not found"sv, "Repository not found"sv, "404: Not Found"sv, "Invalid username or password"sv,
        "Invalid credentials"sv, "Access to model"sv}) {
    if (bytes <= kLongestMessage && text.starts_with(message)) return FileFormat::kServerMessage;
  }
  if (is_tiktoken(head)) return FileFormat::kTiktoken;
  return FileFormat::kText;
}

bool is_textual(FileFormat format) {
  return format == FileFormat::kText || format == FileFormat::kHtml || format == FileFormat::kXml ||
         format == FileFormat::kJson || format == FileFormat::kTiktoken ||
         format == FileFormat::kServerMessage;
}

bool may_be(FileFormat format, FileFormat expected) {
  if (format == expected) return true;
  switch (expected) {
    case FileFormat::kText:
      return is_textual(format);
    case FileFormat::kJson:
      return format == FileFormat::kText;
    default:
      return format == FileFormat::kBinary;
  }
}

}  // namespace

FileFormat recognise_format(std::string_view head, int64_t bytes) {
  head = head.substr(0, kFormatHeadBytes);
  if (head.empty()) return FileFormat::kEmpty;
  if (is_safetensors(head, bytes)) return FileFormat::kSafetensors;
  if (const auto format = by_magic(head)) {
    return *format == FileFormat::kZip && is_torch_zip(head) ? FileFormat::kTorch : *format;
  }
  if (is_pickle(head)) {
    return head.substr(2).starts_with(kTorchNumber) ? FileFormat::kTorch : FileFormat::kPickle;
  }
  if (is_sentencepiece(head)) return FileFormat::kSentencePiece;
  return head.find('\0') == std::string_view::npos ? text_format(head, bytes) : FileFormat::kBinary;
}

std::string_view name_of(FileFormat format) { return describe(format).name; }

std::string_view cure_of(FileFormat format) { return describe(format).cure; }

std::string foreign_file_text(std::string_view head, int64_t bytes, FileFormat expected) {
  const FileFormat format = recognise_format(head, bytes);
  if (may_be(format, expected)) return "";
  return cat("is ", name_of(format), ", not ", name_of(expected), ": ", cure_of(format));
}

std::string foreign_file_text(const std::filesystem::path& path, FileFormat expected) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) return "";
  std::string head(kFormatHeadBytes, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (in.bad()) return "";
  head.resize(static_cast<size_t>(in.gcount()));
  return foreign_file_text(head, static_cast<int64_t>(bytes), expected);
}

void reject_foreign_file(const std::filesystem::path& path, FileFormat expected) {
  const std::string text = foreign_file_text(path, expected);
  require<DataError>(text.empty(), path.string(), " ", text);
}

}  // namespace braid
