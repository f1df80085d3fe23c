/** For the model, about all tools together. */
export function instructionsFor(sandbox: string, isNamed: boolean): string {
  return `Dormouse gives you Linux sandboxes that never forget. Python variables, imports, files and background processes \
stay from call to call, for days and weeks. Load data once, then continue with what is in memory.
This conversation has its own sandbox, "${sandbox}". The first call creates it, and every tool uses it unless you give \
\`sandbox\`. ${isNamed ? 'It stays until it is deleted.' : 'It is deleted after 30 days without use.'}
An unused sandbox goes to sleep by itself and costs nothing. The next call wakes it as it was, so never close or restart \
one to save resources.
Long work continues when a call returns before its end or times out: fetch its end with \`get_run\`.
Call \`snapshot_sandbox\` before something risky, and \`rollback_sandbox\` if it went wrong. Call \`fork_sandbox\` to try \
several ways from one state.
Sandboxes reach the internet over TCP, unless the server or their \`network\` (see \`create_sandbox\`) forbids it.`
}
