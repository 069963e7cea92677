import { Component, type ReactNode } from "react";

interface Props {
  message: string;
  again: string;
  children: ReactNode;
}

/** A fault in one part leaves the rest of the page alone. */
export class ErrorBoundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <div className="empty" role="alert">
        <h1>{this.props.message}</h1>
        <pre className="mono">{String(this.state.error.stack ?? this.state.error.message)}</pre>
        <p />
        <button type="button" className="button" onClick={() => this.setState({ error: null })}>
          {this.props.again}
        </button>
      </div>
    );
  }
}
