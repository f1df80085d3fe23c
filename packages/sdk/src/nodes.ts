import type { DrainedAnswer, NodeAnswer, NodesAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import type { CallOptions } from './options.ts'

export type Node = NodeAnswer
export type Drained = DrainedAnswer

/** The hosts of a cluster. A server outside a cluster is its only node. */
export class Nodes {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** All nodes, as the server that answers sees them. */
  async list({ signal, timeoutMs }: CallOptions = {}): Promise<readonly Node[]> {
    const { items } = await this.#http.json<NodesAnswer>({ path: '/v1/nodes', signal, timeoutMs })
    return items
  }

  /** Gives the node no new sandboxes; with `cordoned: false`, some again. Needs a key with the scope `admin`. */
  cordon(
    node: string,
    { cordoned, signal, timeoutMs }: CallOptions & { cordoned?: boolean } = {},
  ): Promise<Node> {
    const path = `/v1/nodes/${encodeURIComponent(node)}/cordon`
    return this.#http.json({ method: 'POST', path, json: { cordoned }, repeatable: true, signal, timeoutMs })
  }

  /** Cordons the node and moves its sandboxes to others, however long it takes. Needs a key with the scope `admin`. */
  drain(node: string, { signal, timeoutMs = 0 }: CallOptions = {}): Promise<Drained> {
    const path = `/v1/nodes/${encodeURIComponent(node)}/drain`
    return this.#http.json({ method: 'POST', path, json: {}, repeatable: true, signal, timeoutMs })
  }
}
