import { DormouseError, hasCode } from '../error.ts'
import type { Sandbox } from '../sandbox.ts'
import { bounded } from '../tools/describe-run.ts'

/** The input of Anthropic's text editor tool. */
export interface TextEdit {
  readonly command: string
  readonly path: string
  readonly view_range?: readonly [number, number]
  readonly file_text?: string
  readonly old_str?: string
  readonly new_str?: string
  readonly insert_line?: number
  /** Version 20250728 calls it so. */
  readonly insert_text?: string
}

/** How many lines of context an edit shows. */
const CONTEXT_LINES = 4

/** Does what the model asks of a file and returns what it should read. */
export async function editText(sandbox: Sandbox, edit: TextEdit, signal?: AbortSignal): Promise<string> {
  if (typeof edit.path !== 'string' || edit.path === '') throw wrong('path', 'must be text')
  if (edit.command === 'view') return view(sandbox, edit, signal)
  if (edit.command === 'create') {
    await sandbox.files.write(edit.path, textOf(edit, 'file_text'), { signal })
    return `The file ${edit.path} was written.`
  }
  const before = await sandbox.files.read(edit.path, { signal })
  const { after, line } = edit.command === 'insert' ? insertText(before, edit) : replaceText(before, edit)
  await sandbox.files.write(edit.path, after, { signal })
  const start = Math.max(1, line - CONTEXT_LINES)
  const shown = numbered(after, [start, line + CONTEXT_LINES])
  return `The file ${edit.path} was changed. The lines around the change:\n${shown}`
}

async function view(
  sandbox: Sandbox,
  { path, view_range }: TextEdit,
  signal: AbortSignal | undefined,
): Promise<string> {
  try {
    return bounded(numbered(await sandbox.files.read(path, { signal }), view_range))
  } catch (error) {
    if (!hasCode(error, 'not_a_file')) throw error
    const entries = await sandbox.files.list(path, { depth: 2, signal })
    return bounded(entries.map((entry) => `${entry.path}${entry.type === 'directory' ? '/' : ''}`).join('\n'))
  }
}

function replaceText(before: string, edit: TextEdit): { after: string; line: number } {
  if (edit.command !== 'str_replace') throw wrong('command', 'must be view, create, str_replace or insert')
  const old = textOf(edit, 'old_str')
  const at = before.indexOf(old)
  if (old === '' || at === -1) throw wrong('old_str', `does not occur in ${edit.path}`)
  const second = before.indexOf(old, at + 1)
  if (second !== -1)
    throw wrong(
      'old_str',
      `occurs more than once, in lines ${lineAt(before, at)} and ${lineAt(before, second)}`,
    )
  const after = before.slice(0, at) + (edit.new_str ?? '') + before.slice(at + old.length)
  return { after, line: lineAt(before, at) }
}

function insertText(before: string, edit: TextEdit): { after: string; line: number } {
  const lines = before.split('\n')
  const line = edit.insert_line
  if (line === undefined || !Number.isInteger(line) || line < 0 || line > lines.length)
    throw wrong('insert_line', `must be a line from 0 to ${lines.length}`)
  const text = edit.insert_text ?? textOf(edit, 'new_str')
  lines.splice(line, 0, text.replace(/\n$/, ''))
  return { after: lines.join('\n'), line: line + 1 }
}

function numbered(text: string, range: readonly [number, number] | undefined): string {
  const lines = text.split('\n')
  const [first, last] = range ?? [1, -1]
  if (!Number.isInteger(first) || !Number.isInteger(last) || first < 1 || (last !== -1 && last < first))
    throw wrong('view_range', 'must be two line numbers, the first from 1, the second not before it, or -1')
  return lines
    .slice(first - 1, last === -1 ? undefined : last)
    .map((line, index) => `${first + index}\t${line}`)
    .join('\n')
}

function lineAt(text: string, at: number): number {
  return text.slice(0, at).split('\n').length
}

function textOf(edit: TextEdit, name: 'file_text' | 'old_str' | 'new_str'): string {
  const value = edit[name]
  if (typeof value !== 'string') throw wrong(name, 'must be text')
  return value
}

function wrong(name: string, problem: string): DormouseError {
  const hint = 'Correct the named input and call again.'
  return new DormouseError('invalid_argument', `${name}: ${problem}`, { hint })
}
