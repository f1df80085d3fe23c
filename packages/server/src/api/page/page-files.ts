import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'

export interface PageFile {
  readonly type: string
  readonly plain: Buffer
  readonly brotli: Buffer | undefined
  readonly gzip: Buffer | undefined
}

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
}

/** Where the build of the page is. */
export function pageDirectory(): string {
  return join(dirname(createRequire(import.meta.url).resolve('@dormouse/page/package.json')), 'dist')
}

/** The files of the page by name. Empty when it was not built. */
export function readPageFiles(directory: string): ReadonlyMap<string, PageFile> {
  const files = new Map<string, PageFile>()
  let names: string[]
  try {
    names = readdirSync(directory)
  } catch {
    return files
  }
  const known = new Set(names)
  const read = (name: string) => (known.has(name) ? readFileSync(join(directory, name)) : undefined)
  for (const name of names) {
    const type = TYPES[extname(name)]
    const plain = type === undefined ? undefined : read(name)
    if (type !== undefined && plain !== undefined)
      files.set(name, { type, plain, brotli: read(`${name}.br`), gzip: read(`${name}.gz`) })
  }
  return files
}
