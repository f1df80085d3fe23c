import { DormouseError } from '@dormouse/contracts'
import { type AuthenticatedKey, hasScope, type Scope } from './access.ts'

/** Throws `scope_missing`. */
export function requireScope(key: AuthenticatedKey, wanted: Scope): void {
  if (hasScope(key, wanted)) return
  throw new DormouseError(
    'scope_missing',
    `This needs the scope "${wanted}"; the key "${key.name}" lacks it`,
    {
      details: { wanted, scopes: key.scopes },
    },
  )
}
