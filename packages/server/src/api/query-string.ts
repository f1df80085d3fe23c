import { parse } from 'node:querystring'

type Query = Record<string, unknown>

const MEMBER = /^(?<name>[A-Za-z]+)(?:\.(?<dotted>.+)|\[(?<bracketed>.+)\])$/

/**
 * `metadata.user=42` and `metadata[user]=42` become `{metadata: {user: '42'}}`. Repeated parameters become an array,
 * which every schema refuses.
 */
export function parseQueryString(text: string): Query {
  const query: Query = Object.create(null)
  for (const [key, value] of Object.entries(parse(text))) {
    const { name, dotted, bracketed } = MEMBER.exec(key)?.groups ?? {}
    const member = dotted ?? bracketed
    if (name === undefined || member === undefined) {
      query[key] = value
      continue
    }
    if (query[name] === undefined) query[name] = Object.create(null)
    const members = query[name]
    // `metadata=x&metadata.y=z`: keeps both, for the schema to refuse.
    if (typeof members === 'object' && members !== null) (members as Query)[member] = value
    else query[key] = value
  }
  return query
}
