import { DormouseError } from '@dormouse/contracts'

/**
 * Returns the type in `offered` that the `Accept` header prefers; the first if it has no preference. Throws
 * `not_acceptable`. A named media type beats a matching pattern.
 */
export function negotiate<const Type extends string>(
  accept: string | undefined,
  offered: readonly [Type, ...Type[]],
): Type {
  if (accept === undefined || accept === '' || accept === '*/*') return offered[0]
  const wanted = accept.split(',').map(parseRange)
  let best: { type: Type; rank: number } | undefined
  for (const type of offered) {
    const rank = rankOf(type, wanted)
    if (rank > (best?.rank ?? 0)) best = { type, rank }
  }
  if (best !== undefined) return best.type
  throw new DormouseError('not_acceptable', `this route answers with ${offered.join(', ')}`, {
    details: { offered },
  })
}

interface Range {
  readonly range: string
  readonly quality: number
}

function parseRange(text: string): Range {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const given = parameters.find((parameter) => parameter.startsWith('q='))
  const quality = given === undefined ? 1 : Number(given.slice(2))
  return { range, quality: quality >= 0 && quality <= 1 ? quality : 0 }
}

/** 0 means refused. The quality decides, then how specific the match is. */
function rankOf(type: string, wanted: readonly Range[]): number {
  const patterns = [type, `${type.split('/', 1)[0]}/*`, '*/*']
  for (const [index, pattern] of patterns.entries()) {
    const match = wanted.find(({ range }) => range === pattern)
    if (match !== undefined) return match.quality === 0 ? 0 : match.quality * 10 + (patterns.length - index)
  }
  return 0
}
