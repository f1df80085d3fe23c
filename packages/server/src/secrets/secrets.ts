import type { SecretAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'

/** No answer has a value. */
export interface Secrets {
  /** Throws `name_taken`, `limit_reached`. */
  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretAnswer
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<SecretAnswer>
  get(name: string, caller: Caller): SecretAnswer
  /** Post: requests that begin from now on go by it. */
  update(
    name: string,
    change: { value?: string; domains?: readonly string[] },
    caller: Caller,
  ): Promise<SecretAnswer>
  /** Throws `in_use` while a sandbox has it; with `force` it is taken from them first. */
  delete(name: string, options: { force: boolean }, caller: Caller): Promise<void>
}
