import { DormouseError } from '@dormouse/contracts'

/** Where the next page of a list begins: a time and an id, opaque to callers. */
export function cursorOf(at: number, id: string): string {
  return Buffer.from(`${at}:${id}`).toString('base64url')
}

export function positionOf(cursor: string): [at: number, id: string] {
  const found = /^(\d{1,15}):([a-z0-9-]{1,64})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'))
  if (found?.[1] === undefined || found[2] === undefined) {
    throw new DormouseError('invalid_argument', 'cursor: is not one that this server gave', {
      hint: 'Use `nextCursor` of the page before as it is, or leave it out to begin anew.',
      details: { field: 'cursor' },
    })
  }
  return [Number(found[1]), found[2]]
}
