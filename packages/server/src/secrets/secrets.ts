import type { SecretAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'

/** Secrets without their values. */
export interface Secrets {
  /** Throws `name_taken`, `limit_reached`. */
  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretAnswer
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<SecretAnswer>
  get(name: string, caller: Caller): SecretAnswer
  /** Post: new requests use the change. */
  update(
    name: string,
    change: { value?: string; domains?: readonly string[] },
    caller: Caller,
  ): Promise<SecretAnswer>
  /** Throws `in_use` while a sandbox uses it; `force` removes it from them first. */
  delete(name: string, options: { force: boolean }, caller: Caller): Promise<void>
}
