import type { FileStat } from '../files/files.ts'
import { imageTypeOf } from './describe-run.ts'
import { inputSchema } from './input-schema.ts'
import type { ToolDefinition } from './tool-definition.ts'
import { type ToolOutput, toolOutput } from './tool-output.ts'

const READ_DEFAULT_BYTES = 50_000
const READ_MAX_BYTES = 1024 ** 2
/** As bytes. Common models refuse images of more than 5 MB as base64. */
const IMAGE_MAX_BYTES = 3_900_000
const LISTED_MAX = 500
const IMAGE_NAME = /\.(png|jpe?g|gif|webp)$/i
/** One call of String.fromCharCode takes about this many arguments. */
const BINARY_STEP = 0x8000

const path = {
  type: 'string',
  minLength: 1,
  description: 'Absolute, or relative to the home directory.',
} as const

interface ReadFile {
  readonly path: string
  readonly offsetBytes?: number
  readonly maxBytes?: number
}

const readFile: ToolDefinition = {
  name: 'read_file',
  description:
    'Read a file, or a part of it. Images are returned as images. Work on large data with run_python instead.',
  inputSchema: inputSchema(
    {
      path,
      offsetBytes: { type: 'integer', minimum: 0, description: 'Where to start. Default: 0.' },
      maxBytes: {
        type: 'integer',
        minimum: 1,
        maximum: READ_MAX_BYTES,
        description: `The most to read. Default: ${READ_DEFAULT_BYTES}.`,
      },
    },
    ['path'],
  ),
  run: async (sandbox, { path, offsetBytes = 0, maxBytes = READ_DEFAULT_BYTES }: ReadFile, { signal }) => {
    const { sizeBytes } = await sandbox.files.stat(path, { signal })
    if (IMAGE_NAME.test(path) && sizeBytes <= IMAGE_MAX_BYTES) {
      const data = toBase64(await sandbox.files.readBytes(path, { signal }))
      const mediaType = imageTypeOf(data)
      if (mediaType !== undefined) return toolOutput(`[${path}]`, { images: [{ mediaType, data }] })
    }
    const part = await readPart(sandbox.files.stream(path, { signal }), { offsetBytes, maxBytes })
    return describePart(part, { offsetBytes, sizeBytes })
  },
}

function describePart(
  part: Uint8Array,
  { offsetBytes, sizeBytes }: { offsetBytes: number; sizeBytes: number },
): ToolOutput {
  const whole = wholeCharacters(part)
  const text = new TextDecoder().decode(whole)
  if (text.includes('\0'))
    return toolOutput(`[a binary file of ${sizeBytes} bytes: work on it with run_python]`)
  const end = offsetBytes + whole.byteLength
  if (end >= sizeBytes || whole.byteLength === 0) return toolOutput(text === '' ? '[empty]' : text)
  return toolOutput(`${text}\n[${sizeBytes} bytes in total: continue with offsetBytes ${end}]`)
}

/** Without a character of UTF-8 that the end cuts in half. */
function wholeCharacters(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(4, bytes.byteLength); back += 1) {
    const byte = bytes[bytes.byteLength - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.subarray(0, bytes.byteLength - back) : bytes
  }
  return bytes
}

async function readPart(
  stream: ReadableStream<Uint8Array>,
  { offsetBytes, maxBytes }: { offsetBytes: number; maxBytes: number },
): Promise<Uint8Array> {
  const part = new Uint8Array(maxBytes)
  let at = 0
  let length = 0
  const reader = stream.getReader()
  try {
    while (length < maxBytes) {
      const { done, value } = await reader.read()
      if (done) break
      const wanted = value.subarray(Math.max(0, offsetBytes - at)).subarray(0, maxBytes - length)
      part.set(wanted, length)
      length += wanted.byteLength
      at += value.byteLength
    }
  } finally {
    // Only the rest is lost, which is not wanted.
    await reader.cancel().catch(() => {})
  }
  return part.subarray(0, length)
}

function toBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.length; at += BINARY_STEP)
    binary += String.fromCharCode(...bytes.subarray(at, at + BINARY_STEP))
  return btoa(binary)
}

interface WriteFile {
  readonly path: string
  readonly content: string
}

const writeFile: ToolDefinition = {
  name: 'write_file',
  description: 'Write a text file. Makes missing directories and replaces an existing file in one step.',
  inputSchema: inputSchema({ path, content: { type: 'string', description: 'The whole new content.' } }, [
    'path',
    'content',
  ]),
  run: async (sandbox, { path, content }: WriteFile, { signal }) => {
    const written = await sandbox.files.write(path, content, { signal })
    return toolOutput(`[wrote ${written.sizeBytes} bytes to ${written.path}]`)
  },
}

interface ListFiles {
  readonly path?: string
  readonly depth?: number
}

const listFiles: ToolDefinition = {
  name: 'list_files',
  description: `List a directory with types and sizes, at most ${LISTED_MAX} entries. To search, use run_shell with find or grep.`,
  inputSchema: inputSchema(
    {
      path: { ...path, description: 'The directory. Default: the home directory.' },
      depth: {
        type: 'integer',
        minimum: 1,
        maximum: 10,
        description: '1, the default: only this directory.',
      },
    },
    [],
  ),
  run: async (sandbox, { path = '.', depth = 1 }: ListFiles, { signal }) => {
    const all = await sandbox.files.list(path, { depth, signal })
    const more = all.length > LISTED_MAX ? `\n[${all.length - LISTED_MAX} more: use find]` : ''
    const lines = all.slice(0, LISTED_MAX).map(describeFile)
    return toolOutput(lines.length === 0 ? '[empty]' : lines.join('\n') + more)
  },
}

function describeFile({ path, type, sizeBytes, target }: FileStat): string {
  if (type === 'directory') return `${path}/`
  return target === undefined ? `${path}  ${sizeBytes} bytes` : `${path} -> ${target}`
}

export const FILE_TOOLS: readonly ToolDefinition[] = [readFile, writeFile, listFiles]
