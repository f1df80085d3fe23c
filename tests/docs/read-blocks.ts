import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Block {
  readonly language: string
  readonly code: string
  readonly line: number
  /** Why it is not run; undefined if it is. */
  readonly notRun: string | undefined
}

export function isRun({ notRun }: Block): boolean {
  return notRun === undefined
}

const FENCE = /^(?:<!-- not run: (?<reason>.+) -->\n+)?```(?<language>\w+)\n(?<code>[\s\S]*?)^```$/gm

/** What a reader would type or paste: all blocks with a language. Those without show data. */
export function readBlocks(text: string): Block[] {
  return [...text.matchAll(FENCE)].map(({ groups, index }) => ({
    language: groups?.['language'] ?? '',
    code: groups?.['code'] ?? '',
    line: text.slice(0, index).split('\n').length,
    notRun: groups?.['reason'],
  }))
}

export interface Document {
  readonly path: string
  readonly text: string
  readonly blocks: readonly Block[]
}

/** README.md and all below docs/. */
export function readDocuments(root: string): Document[] {
  const below = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  const paths = [
    'README.md',
    ...below.filter((path) => path.endsWith('.md')).map((path) => join('docs', path)),
  ]
  return paths.sort().map((path) => {
    const text = readFileSync(join(root, path), 'utf8')
    return { path, text, blocks: readBlocks(text) }
  })
}
