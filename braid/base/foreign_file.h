// Files that are not what their reader expects: recognised by their first bytes, with the words for an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace braid {

/// What a file holds, as far as its first bytes tell.
enum class FileFormat : uint8_t {
  kText,           // no other format, and no NUL
  kBinary,         // no other format, and a NUL
  kEmpty,          //
  kGitLfsPointer,  // stands in a clone for a file that was not fetched
  kServerMessage,  // "Entry not found" and the like, saved in the place of a download
  kHtml,
  kXml,
  kJson,  // begins with { or [
  kUtf16,
  kTiktoken,  // Llama 3's original tokenizer.model
  kSentencePiece,
  kSafetensors,
  kTokenIndex,     // Megatron's .idx
  kOldTokenIndex,  // Megatron's lazy and cached .idx
  kTorch,          // torch.save: a zip archive or an older pickle
  kPickle,
  kGguf,
  kNumpy,
  kHdf5,
  kParquet,
  kArrow,
  kSqlite,
  kGzip,
  kZstd,
  kXz,
  kBzip2,
  kLz4,
  kZip,
  kSevenZip,
  kTar,
  kPdf,
  kImage,
  kProgram,
};

/// As many first bytes as `recognise_format` needs.
inline constexpr size_t kFormatHeadBytes = 8192;

/// The format of a file of `bytes` bytes that begins with `head`: its first kFormatHeadBytes, or all of a
/// shorter file.
FileFormat recognise_format(std::string_view head, int64_t bytes);

/// The format with its article, as in "X is a Git LFS pointer".
std::string_view name_of(FileFormat format);

/// What to do with a file of this format where another one is expected, as in "run git lfs pull ...".
std::string_view cure_of(FileFormat format);

/// Why a file of `bytes` bytes that begins with `head` cannot be `expected`, to follow the file's name: "is a
/// Git LFS pointer, not a SentencePiece model: run git lfs pull in its repository". Empty if it may be: the
/// format is the expected one, or the reader knows better what is wrong. Text may be HTML, XML or JSON; JSON
/// may be any text.
std::string foreign_file_text(std::string_view head, int64_t bytes, FileFormat expected);

/// The same for a file on disk; also empty if it cannot be read, which its reader reports.
std::string foreign_file_text(const std::filesystem::path& path, FileFormat expected);

/// Throws DataError, path and foreign_file_text, if that is not empty.
void reject_foreign_file(const std::filesystem::path& path, FileFormat expected);

}  // namespace braid
