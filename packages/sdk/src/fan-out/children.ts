import type { Sandbox } from '../sandbox.ts'

/** The server makes at most this many in one call. */
type Most = 100

/** The children of `fork(count)`: a tuple if the count is known when the program is compiled. */
export type Children<Count extends number> = Count extends unknown
  ? number extends Count
    ? Sandbox[]
    : Tuple<Count>
  : never

type Tuple<Count extends number, Found extends Sandbox[] = []> = Found['length'] extends Count
  ? Found
  : Found['length'] extends Most
    ? Sandbox[]
    : Tuple<Count, [...Found, Sandbox]>
