/** What a client may tell its model about all tools together. */
export function instructionsFor(sandbox: string, isNamed: boolean): string {
  return `Dormouse gives you Linux sandboxes that never forget. Python variables, imports, files and background processes stay from call to call, \
for days and weeks: load data once, then go on with what is in memory instead of sending it again.
This conversation has a sandbox of its own, "${sandbox}". It is created when it is first needed, and every tool uses it unless you give \`sandbox\`. \
${isNamed ? 'It stays until it is deleted.' : 'It is deleted after 30 days without use.'}
A sandbox that is not used goes to sleep by itself and costs nothing; the next call wakes it as it was, so never close or restart one to save resources.
Before something risky, \`snapshot_sandbox\`, and \`rollback_sandbox\` if it went wrong. To try several ways from one state, \`fork_sandbox\`.
Sandboxes reach the internet over TCP, unless this server or their \`network\` (see \`create_sandbox\`) says otherwise.`
}
