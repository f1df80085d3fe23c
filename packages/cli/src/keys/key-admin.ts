import type { CreatedKeyAnswer, CreateKeyBody, KeyAnswer, UpdateKeyBody } from '@dormouse/contracts/http'

/** Managing keys, wherever they are. The shapes are those of `/v1/keys`. */
export interface KeyAdmin {
  create(request: CreateKeyBody): Promise<CreatedKeyAnswer>
  list(): Promise<readonly KeyAnswer[]>
  update(id: string, change: UpdateKeyBody): Promise<KeyAnswer>
  revoke(id: string): Promise<KeyAnswer>
}
