"""The peers' programs, each as one of their users would write it. They run as whole processes."""
