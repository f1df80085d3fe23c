import { invalidArgument } from '../check.ts'
import type { ResultData } from './run-options.ts'

/** By the ending of a file. */
const MIME_TYPES: Readonly<Record<string, string>> = {
  '.txt': 'text/plain',
  '.html': 'text/html',
  '.htm': 'text/html',
  '.md': 'text/markdown',
  '.tex': 'text/latex',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.pdf': 'application/pdf',
}

/**
 * A value that code displayed, by mime types as in a notebook (`result['text/html']`): text as it is, binary as base64,
 * JSON as JSON. The other members decode the usual ones; they are undefined if the result does not have that form.
 */
export class Result {
  readonly [mimeType: string]: unknown
  readonly #isMain: boolean

  constructor(data: ResultData, isMain = false) {
    this.#isMain = isMain
    // Code in the sandbox chose the names: none of them may replace a member.
    for (const [name, value] of Object.entries(data))
      if (!(name in Result.prototype)) Object.assign(this, { [name]: value })
  }

  /** True for the value of the last line, false for what the code displayed before. */
  get isMain(): boolean {
    return this.#isMain
  }

  get text(): string | undefined {
    return this.#textOf('text/plain')
  }

  get html(): string | undefined {
    return this.#textOf('text/html')
  }

  get markdown(): string | undefined {
    return this.#textOf('text/markdown')
  }

  get latex(): string | undefined {
    return this.#textOf('text/latex')
  }

  get svg(): string | undefined {
    return this.#textOf('image/svg+xml')
  }

  get json(): unknown {
    return this['application/json']
  }

  get png(): Uint8Array | undefined {
    return this.dataOf('image/png')
  }

  get jpeg(): Uint8Array | undefined {
    return this.dataOf('image/jpeg')
  }

  /** The bytes of a binary value; undefined if there is none, or if it is not base64. */
  dataOf(mimeType: string): Uint8Array | undefined {
    const value = this.#textOf(mimeType)
    if (value === undefined) return undefined
    try {
      const binary = atob(value)
      const bytes = new Uint8Array(binary.length)
      for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index)
      return bytes
    } catch {
      return undefined
    }
  }

  /** Writes it to a file of this machine. The ending says in which form: `plot.png`, `table.html`, `data.json`. */
  async saveTo(path: string | URL): Promise<void> {
    const name = String(path)
    const ending = /\.[^./\\]*$/.exec(name)?.[0].toLowerCase() ?? ''
    const content = this.#contentOf(MIME_TYPES[ending])
    if (content === undefined) {
      const known = Object.keys(MIME_TYPES).filter((each) => this.#contentOf(MIME_TYPES[each]) !== undefined)
      const problem = `the result has no form for a file that ends in ${JSON.stringify(ending)}`
      const hint = known.length === 0 ? undefined : `This result can be saved as ${known.join(', ')}.`
      throw invalidArgument('path', problem, name, hint)
    }
    const { localFiles } = await import('#local-files')
    await localFiles.saveFile(path, content)
  }

  #textOf(mimeType: string): string | undefined {
    const value = Object.hasOwn(this, mimeType) ? this[mimeType] : undefined
    return typeof value === 'string' ? value : undefined
  }

  #contentOf(mimeType: string | undefined): string | Uint8Array | undefined {
    if (mimeType === undefined) return undefined
    if (mimeType === 'application/json')
      return this.json === undefined ? undefined : JSON.stringify(this.json, null, 2)
    const isText = mimeType.startsWith('text/') || mimeType === 'image/svg+xml'
    return isText ? this.#textOf(mimeType) : this.dataOf(mimeType)
  }
}
