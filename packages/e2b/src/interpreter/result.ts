import type { ResultData } from '@dormouse/contracts'

/** MIME types with a field of their own. */
const FIELDS: Record<string, string> = {
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/pdf': 'pdf',
  'text/latex': 'latex',
  'application/json': 'json',
  'application/javascript': 'javascript',
  'application/vnd.dormouse.data+json': 'data',
  'application/vnd.dormouse.chart+json': 'chart',
}

/** A result as E2B's clients read it. Types without a field of their own are in `extra`. */
export function resultOf(data: ResultData, isMain: boolean): object {
  const result: Record<string, unknown> = { type: 'result', is_main_result: isMain }
  const extra: Record<string, unknown> = {}
  for (const [type, value] of Object.entries(data)) {
    const field = FIELDS[type]
    if (type === 'text/plain') result['text'] = unquoted(String(value))
    else if (field !== undefined) result[field] = value
    else extra[type] = value
  }
  return { ...result, extra }
}

/** The value of a string is shown without its quotes. */
function unquoted(text: string): string {
  const isQuoted = /^'[\s\S]*'$|^"[\s\S]*"$/.test(text)
  return isQuoted && text.length > 1 ? text.slice(1, -1) : text
}
