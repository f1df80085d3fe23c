/** Experimental functions of Node that the kernel calls and user code did not. */
const OURS = /vm\.USE_MAIN_CONTEXT_DEFAULT_LOADER|stripTypeScriptTypes|Type Stripping|Transform Types/i

export function hideOwnWarnings() {
  const emitWarning = /** @type {(...values: any[]) => void} */ (process.emitWarning.bind(process))
  process.emitWarning = (/** @type {any[]} */ ...values) => {
    if (!OURS.test(String(values[0]?.message ?? values[0]))) emitWarning(...values)
  }
}
